import type { Claimed, Executor, WorkSource } from '../kernel/model/index.js'

const MOST = 1_000

/**
 * Closes batches as a source of work whose claims do all the work: locking due tallies, checking whether their
 * batches can close, and sending `onComplete`, all in one transaction without user code. So there is nothing
 * to lease, and nothing is left to run.
 */
export function batchSource(db: Executor): WorkSource<Claimed> {
  return {
    model: 'batches',
    types: () => ['close'],
    async claim() {
      const [row] = await db.run<{ taken: number; next_due_ms: number | null }>(closeStatement, [MOST])
      const handled = row?.taken ?? 0
      // A full page means that more may be due: poll again at once.
      return { items: [], marks: [], handled, nextDueMs: handled === MOST ? 0 : (row?.next_due_ms ?? null) }
    },
    extend: async () => ({ extended: [], lost: [] }),
    release: async () => undefined,
    oldestDueSeconds: async () => null,
  }
}

const closeStatement = { name: 'batches.close', text: 'select * from holdfast.close_batches($1)' }
