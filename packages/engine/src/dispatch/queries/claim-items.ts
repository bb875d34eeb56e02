import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
import type { Mark } from './release-items.js'

/** An item that was claimed for a remote target, its context as it is stored. */
export interface ClaimedItem {
  readonly itemId: string
  readonly executionId: string
  readonly context: unknown
  readonly notes: Notes | null
  readonly checked: boolean
  readonly contextVersion: number
  readonly initWorkflowId: string | null
  readonly retryCount: number
  readonly startAtMs: number
  readonly startDelayMs: number
}

export interface ClaimedBatch {
  readonly outcome: 'lost' | 'off' | 'claimed'
  readonly items: readonly ClaimedItem[]
  readonly claimed: number
  /** Those that had no context: failed already. */
  readonly missing: number
  readonly full: boolean
  readonly mark: Mark | undefined
}

interface Answer extends Partial<Omit<ClaimedBatch, 'mark'>> {
  readonly outcome: ClaimedBatch['outcome']
  readonly lastDue?: string
  readonly lastSeq?: string
}

export async function claimItems(
  executor: Executor,
  request: { readonly type: string; readonly epoch: number; readonly batch: string; readonly most: number },
  from: Mark | undefined,
  slots: readonly number[] | undefined,
): Promise<ClaimedBatch> {
  const [row] = await executor.run<{ answer: Answer }>(claimStatement, [
    JSON.stringify(request),
    from?.due ?? null,
    from?.seq ?? null,
    slots ?? null,
  ])
  const { outcome, items = [], claimed = 0, missing = 0, full = false, lastDue, lastSeq } = row?.answer ?? lost
  const mark = lastDue === undefined || lastSeq === undefined ? undefined : { due: lastDue, seq: lastSeq }
  return { outcome, items, claimed, missing, full, mark }
}

const lost: Answer = { outcome: 'lost' }

/** Why an item was not started. */
export interface StartFailure {
  readonly id: string
  readonly code: string
  readonly message: string
  /** It may have been started: the target is asked before it is started again. */
  readonly unknown?: boolean
}

/** Records the outcomes of the starts of a batch, with one summary. */
export async function recordStarts(
  executor: Executor,
  batch: {
    readonly type: string
    readonly batch: string
    readonly started: readonly string[]
    readonly failures: readonly StartFailure[]
    readonly claimed: number
  },
): Promise<{ readonly started: number; readonly tripped: string | null }> {
  const [row] = await executor.run<{ answer: { started: number; tripped: string | null } }>(recordStatement, [
    batch.type,
    batch.batch,
    batch.started,
    JSON.stringify(batch.failures),
    batch.claimed,
  ])
  return { started: row?.answer.started ?? 0, tripped: row?.answer.tripped ?? null }
}

const claimStatement = {
  name: 'dispatch.claim',
  text: `select holdfast.claim_dispatch_items($1::text::jsonb, $2::timestamptz, $3::bigint, $4::float8[]) as answer`,
}

const recordStatement = {
  name: 'dispatch.record-starts',
  text: 'select holdfast.record_dispatch_starts($1, $2::uuid, $3::text[], $4::text::jsonb, $5) as answer',
}
