import type { Executor } from '../database/executor.js'
import type { Claimed, WorkSource } from './source.js'
import { columnsOf, type Extended } from './table-leases.js'

/**
 * The same for the messages of a PGMQ queue: `vt` is the due time, `read_ct` the epoch. `types` are the commands whose oldest
 * due message is asked for; without it, that of all messages.
 *
 * @example
 * leasesOfQueue(db, { model: 'commands', queue: 'payments__commands', types: () => ['BookRisk'] })
 */
export function leasesOfQueue(
  db: Executor,
  { model, queue, types }: { readonly model: string; readonly queue: string; readonly types?: () => readonly string[] },
): Pick<WorkSource<Claimed>, 'extend' | 'release' | 'oldestDueSeconds'> {
  const extendStatement = {
    name: `${model}.extend`,
    text: 'select extended, lost from holdfast.extend_commands($1, $2::bigint[], $3::int[], $4)',
  }
  const releaseStatement = {
    name: `${model}.release`,
    text: 'select holdfast.release_commands($1, $2::bigint[], $3::int[])',
  }
  const oldestStatement = {
    name: `${model}.oldest-due`,
    text: 'select holdfast.oldest_command_seconds($1, $2::text[]) as seconds',
  }
  return {
    async extend(leases, leaseMs) {
      const [row] = await db.run<Extended>(extendStatement, [queue, ...columnsOf(leases), leaseMs])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, [queue, ...columnsOf(leases)])
    },
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [queue, types?.() ?? null])
      return row?.seconds ?? null
    },
  }
}
