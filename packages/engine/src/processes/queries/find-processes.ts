import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import { splitName } from '../../kernel/ids/name.js'
import type { Executor, Place } from '../../kernel/model/index.js'
import type { ProcessStatus } from '../states.js'

/** A process as it is now. */
export interface ProcessRecord<Result = unknown> {
  readonly id: string
  readonly key: string | null
  readonly domain: string
  readonly type: string
  readonly version: number
  /** Sequential code, or a step-based manager. */
  readonly model: 'PROCESS_STEP' | 'STEP_BASED'
  /** `EXECUTING`, or `COMPENSATING`, while a worker has claimed it. */
  readonly status: ProcessStatus
  /** The state at its last suspension, and before that the initial state. */
  readonly state: unknown
  /** What `execute` returned; null until then, and where it returned nothing. */
  readonly result: Result | null
  /** Why it is in troubleshooting, was compensated or has failed. */
  readonly error: { readonly kind: string; readonly code: string; readonly message: string } | null
  /** The calls it waits for or will try again, by name. */
  readonly waitingFor: string | null
  readonly waitTimeoutAt: Date | null
  readonly nextRetryAt: Date | null
  readonly deadline: Date | null
  /** When it is due next; while it executes, when the lease ends. */
  readonly dueAt: Date | null
  /** Since when it has been waiting for a free slot of its definition's limit. */
  readonly queuedAt: Date | null
  /** The worker that has claimed it, and since when. */
  readonly leasedBy: string | null
  readonly executingSince: Date | null
  /** An operator has cancelled it, and it has not ended yet. */
  readonly cancelling: boolean
  /** Its domain or definition is paused: no worker claims it. */
  readonly paused: boolean
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  readonly parentId: string | null
  readonly batchId: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly endedAt: Date | null
}

/** What a list may be narrowed to. */
export interface ProcessFilter {
  readonly ids?: readonly string[] | undefined
  readonly domain?: string | undefined
  readonly type?: string | undefined
  readonly status?: ProcessStatus | undefined
  readonly key?: string | undefined
  /** Those that have all of these. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>> | undefined
  readonly batch?: string | undefined
  readonly parent?: string | undefined
  /** The call that it waits for or will try again. */
  readonly waitingFor?: string | undefined
  /** Created at that moment or later. */
  readonly since?: Date | undefined
  /** Created before it. */
  readonly until?: Date | undefined
  /** Claimed for longer than this, in milliseconds. */
  readonly longerThanMs?: number | undefined
  /** The last row of the page before. */
  readonly after?: Place | undefined
  readonly limit: number
}

interface Row {
  id: string
  key: string | null
  type: string
  version: number
  model: ProcessRecord['model']
  status: ProcessStatus
  state: unknown
  state_notes: Notes | null
  result: unknown
  result_notes: Notes | null
  error_kind: string | null
  error_code: string | null
  error_message: string | null
  waiting_for: string | null
  wait_timeout_at: string | null
  next_retry_at: string | null
  deadline_at: string | null
  due_at: string | null
  queued_at: string | null
  leased_by: string | null
  leased_at: string | null
  cancel: string | null
  paused: boolean
  attributes: ProcessRecord['attributes'] | null
  parent_id: string | null
  batch_id: string | null
  created_at: string
  updated_at: string
  ended_at: string | null
}

export async function findProcesses(executor: Executor, codec: Codec, filter: ProcessFilter): Promise<ProcessRecord[]> {
  const rows = await executor.run<{ row: Row }>(statement, [requestOf(filter)])
  return rows.map(({ row }) => toRecord(row, codec))
}

export async function countProcesses(executor: Executor, filter: Omit<ProcessFilter, 'limit'>): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, [requestOf(filter)])
  return row?.count ?? 0
}

function requestOf(filter: Omit<ProcessFilter, 'limit'> & { readonly limit?: number }): string {
  return JSON.stringify({
    ids: filter.ids,
    domain: filter.domain,
    type: filter.type,
    status: filter.status,
    key: filter.key,
    attributes: filter.attributes,
    batch_id: filter.batch,
    parent_id: filter.parent,
    waiting_for: filter.waitingFor,
    after_at: filter.after?.createdAt,
    after_id: filter.after?.id,
    since: filter.since,
    until: filter.until,
    longer_than_ms: filter.longerThanMs,
    limit: filter.limit,
  })
}

const toDate = (text: string | null): Date | null => (text === null ? null : new Date(text))

function toRecord(row: Row, codec: Codec): ProcessRecord {
  return {
    id: row.id,
    key: row.key,
    ...splitName(row.type),
    version: row.version,
    model: row.model,
    status: row.status,
    state: decodeOrRaw(codec, row.state, row.state_notes),
    result: decodeOrRaw(codec, row.result, row.result_notes),
    error:
      row.error_code === null
        ? null
        : { kind: row.error_kind ?? '', code: row.error_code, message: row.error_message ?? '' },
    waitingFor: row.waiting_for,
    waitTimeoutAt: toDate(row.wait_timeout_at),
    nextRetryAt: toDate(row.next_retry_at),
    deadline: toDate(row.deadline_at),
    dueAt: toDate(row.due_at),
    queuedAt: toDate(row.queued_at),
    leasedBy: row.leased_by,
    executingSince: toDate(row.leased_at),
    cancelling: row.cancel !== null,
    paused: row.paused,
    attributes: row.attributes ?? {},
    parentId: row.parent_id,
    batchId: row.batch_id,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    endedAt: toDate(row.ended_at),
  }
}

const statement = {
  name: 'processes.find',
  text: 'select row from holdfast.find_processes($1::text::jsonb) as row',
}

const countStatement = {
  name: 'processes.count',
  text: 'select holdfast.count_processes($1::text::jsonb)::int as count',
}
