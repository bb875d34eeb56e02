import { HoldfastError } from '../../kernel/errors.js'
import type { Executor, Outcome } from '../../kernel/model/index.js'
import {
  type HistoryRecord,
  type RecordedFailure,
  type RecordedResponse,
  type ResponseRow,
  toResponse,
} from '../history.js'
import type { ProcessStatus } from '../states.js'
import type { ClaimedProcess } from './claim-processes.js'

/** An event to be recorded. */
export interface JournalEvent
  extends Pick<HistoryRecord, 'seq' | 'at' | 'kind' | 'name' | 'occurrence' | 'status' | 'seen'>,
    Partial<Pick<HistoryRecord, 'attempt' | 'nextAt' | 'detail'>> {
  readonly encoded?: EncodedJson
}

interface EncodedJson {
  readonly json: string
  readonly notes: object | null
}

/** How an execution ends: the status of the process, when it is due next, and its state for readers. Also for the end of the process. */
export interface Suspension {
  readonly status: Exclude<ProcessStatus, 'EXECUTING'>
  readonly dueAt: number | null
  readonly ended: boolean
  /** The last response that was received, and whether a cancellation was. */
  readonly received: number
  readonly receivedCancel: boolean
  /** The last response in the state, and the state; not there where it could not be encoded. */
  readonly seen: number
  readonly state: EncodedJson | undefined
  readonly continues?: { readonly unmet: readonly number[]; readonly events: readonly string[] }
  readonly result?: EncodedJson | undefined
  readonly error?: RecordedFailure | undefined
  readonly waitingFor?: string | undefined
  readonly waitTimeoutAt?: number | undefined
  readonly nextRetryAt?: number | undefined
  readonly mismatch?: boolean
  /** All its effects are compensated, or it had none: for its parent. */
  readonly undone?: boolean
  /**
   * Given where the record was not replayed to its end: what is known of an earlier interruption must not be lost. Otherwise
   * the process is suspended in order.
   */
  readonly restedEpoch?: number
  readonly limited?: boolean
  /** Wake up workers, because it is due at a time that they do not know. */
  readonly wakes?: boolean
}

/** The execution that a write belongs to, as far as reports name it. */
export interface WrittenBy {
  readonly item: Pick<ClaimedProcess, 'id' | 'type' | 'key' | 'epoch' | 'now' | 'startAt' | 'createdAt'>
  /** Milliseconds of the database's clock. */
  readonly now: () => number
}

/** What one execution writes at one moment, behind its fence. */
export interface ProcessWrite {
  readonly id: string
  readonly epoch: number
  readonly generation: number
  readonly token: string
  readonly events: readonly JournalEvent[]
  readonly suspension?: Suspension
  /** Whose write it is, for reports. */
  readonly by?: WrittenBy
}

/** What an execution had not received when it tried to suspend. */
export interface Incoming {
  readonly cancel: 'PLAIN' | 'COMPENSATE' | null
  readonly responses: readonly RecordedResponse[]
}

interface IncomingRow {
  cancel: 'PLAIN' | 'COMPENSATE' | null
  responses: ResponseRow[] | null
}

export async function writeProcesses(
  executor: Executor,
  writes: readonly ProcessWrite[],
): Promise<Outcome<Incoming | undefined>[]> {
  const [row] = await executor.run<{ results: (number | IncomingRow)[] | null }>(statement, [
    `[${writes.map(toJson).join(',')}]`,
  ])
  const results = row?.results
  if (!results) return writes.map(() => ({ done: undefined }))
  return writes.map(({ id, epoch }, place) => toOutcome(results[place], id, epoch))
}

function toOutcome(result: number | IncomingRow | undefined, id: string, epoch: number): Outcome<Incoming | undefined> {
  if (result === 0) return { done: undefined }
  if (result === 2) return 'held'
  if (typeof result === 'object') return { done: toIncoming(result) }
  return { failed: new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) }) }
}

export function toIncoming({ cancel, responses }: IncomingRow): Incoming {
  return { cancel, responses: (responses ?? []).map(toResponse) }
}

function toJson({ id, epoch, generation, token, events, suspension }: ProcessWrite): string {
  const head = `{"id":"${id}","epoch":${epoch},"generation":${generation},"token":"${token}","events":[${events.map(eventToJson).join(',')}]`
  return suspension ? `${head},${suspensionToJson(suspension)}}` : `${head}}`
}

// Built by hand: it is what a worker does most.
function eventToJson(event: JournalEvent): string {
  const { seq, at, kind, name, occurrence, status, seen, attempt, nextAt, detail, encoded } = event
  let json = `{"seq":${seq},"at":${at},"kind":"${kind}","name":${JSON.stringify(name)},"occurrence":${occurrence},"status":"${status}"`
  if (seen !== null) json += `,"seen":${seen}`
  if (attempt != null) json += `,"attempt":${attempt}`
  if (nextAt != null) json += `,"next_at":${nextAt}`
  if (detail != null) json += `,"detail":${JSON.stringify(detail)}`
  if (encoded) json += `,"result":${encoded.json}`
  if (encoded?.notes) json += `,"notes":${JSON.stringify(encoded.notes)}`
  return `${json}}`
}

function suspensionToJson(suspension: Suspension): string {
  const fields = {
    to_status: suspension.status,
    due_ms: suspension.dueAt,
    ended: suspension.ended,
    responses: suspension.received,
    heard_cancel: suspension.receivedCancel,
    seen: suspension.seen,
    has_projection: suspension.state !== undefined,
    projection_notes: suspension.state?.notes,
    continues: suspension.continues !== undefined,
    unmet: suspension.continues?.unmet,
    asked_events: suspension.continues?.events,
    result_notes: suspension.result?.notes,
    error: suspension.error,
    waiting_for: suspension.waitingFor,
    wait_timeout_ms: suspension.waitTimeoutAt,
    next_retry_ms: suspension.nextRetryAt,
    mismatch: suspension.mismatch,
    undone: suspension.undone,
    rested: suspension.restedEpoch,
    limited: suspension.limited,
    wakes: suspension.wakes,
  }
  const state = suspension.state ? `,"projection":${suspension.state.json}` : ''
  const result = suspension.result ? `,"result":${suspension.result.json}` : ''
  return `${JSON.stringify(fields).slice(1, -1)}${state}${result}`
}

const statement = {
  name: 'processes.write',
  text: 'select holdfast.write_processes($1::text::jsonb) as results',
}
