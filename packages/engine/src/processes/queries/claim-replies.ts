import type { Notes } from '../../kernel/codec/notes.js'
import type { Claimed, ClaimRequest, Executor } from '../../kernel/model/index.js'
import type { ReplyMessage } from '../replies/message.js'
import {
  type KnownRow,
  type ManagedProcess,
  type ManagedRow,
  type SentBefore,
  toKnown,
  toManaged,
} from './read-managed.js'

/** A reply in the queue of a domain; `id` is its message's, `epoch` how often that was read. */
export interface ClaimedReply extends Claimed {
  readonly processId: string
  readonly processType: string
  readonly message: ReplyMessage
  readonly notes: Notes | null
  /** Where its process is step-based: what its handlers decide by, as it was at the claim. */
  readonly managed: ManagedProcess | undefined
  readonly before: SentBefore
}

interface Row {
  readonly items: (Omit<ClaimedReply, 'managed' | 'before'> & { model: 'PROCESS_STEP' | 'STEP_BASED' })[]
  readonly managed: ManagedRow[] | null
  readonly known: KnownRow[] | null
  readonly mark: number | null
  readonly next_due_ms: number | null
  readonly unknown: UnknownReply[] | null
  readonly malformed: number
}

interface UnknownReply {
  readonly commandId: string | null
  readonly correlationId: string
}

export async function claimReplies(
  executor: Executor,
  { queue, domain }: { readonly queue: string; readonly domain: string },
  { lanes, limit, leaseMs, spareLeased, ceilingMs }: ClaimRequest,
) {
  const [row] = await executor.run<Row>(statement, [
    queue,
    domain,
    lanes[0]?.from ?? null,
    limit,
    leaseMs,
    spareLeased,
    ceilingMs,
  ])
  const managed = toManaged(row?.managed)
  const known = toKnown(row?.known)
  const items = (row?.items ?? []).map(
    ({ model, ...item }): ClaimedReply => ({
      ...item,
      managed: model === 'STEP_BASED' ? managed.get(item.processId) : undefined,
      before: known.get(item.id) ?? {},
    }),
  )
  return {
    items,
    marks: row?.mark == null ? [] : [{ type: domain, mark: row.mark }],
    nextDueMs: row?.next_due_ms ?? null,
    unknown: row?.unknown ?? [],
    malformed: row?.malformed ?? 0,
  }
}

const statement = {
  name: 'processes.claim-replies',
  text: 'select * from holdfast.claim_replies($1, $2, $3, $4, $5, $6, $7)',
}
