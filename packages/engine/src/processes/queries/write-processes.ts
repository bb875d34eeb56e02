import type { Outcome } from '../../kernel/batching/flusher.js'
import type { Executor } from '../../kernel/database/executor.js'
import { HoldfastError } from '../../kernel/errors.js'
import {
  type HistoryRecord,
  type RecordedFailure,
  type RecordedResponse,
  type ResponseRow,
  toResponse,
} from '../history.js'
import type { ProcessStatus } from '../states.js'
import type { ClaimedProcess } from './claim-processes.js'

/** A record on its way into the history. */
export interface JournalEvent
  extends Pick<HistoryRecord, 'seq' | 'at' | 'kind' | 'name' | 'occurrence' | 'status' | 'seen'>,
    Partial<Pick<HistoryRecord, 'attempt' | 'nextAt' | 'detail'>> {
  readonly encoded?: Sealed
}

interface Sealed {
  readonly json: string
  readonly notes: object | null
}

/** How an execution ends: where the process rests, until when, and what readers should know. */
export interface Rest {
  readonly status: Exclude<ProcessStatus, 'EXECUTING'>
  readonly dueAt: number | null
  readonly ended: boolean
  /** The last response and cancellation that were taken into account. */
  readonly heard: number
  readonly heardCancel: boolean
  /** The last response in the state, and the state; not there where it could not be encoded. */
  readonly seen: number
  readonly state: Sealed | undefined
  readonly continues?: { readonly unmet: readonly number[]; readonly events: readonly string[] }
  readonly result?: Sealed | undefined
  readonly error?: RecordedFailure | undefined
  readonly waitingFor?: string | undefined
  readonly waitTimeoutAt?: number | undefined
  readonly nextRetryAt?: number | undefined
  readonly mismatch?: boolean
  /** Whatever it did is undone, or it did nothing: for its parent. */
  readonly undone?: boolean
  /**
   * Given where the record was not followed to its end: what is known of an earlier interruption must not be lost. Otherwise
   * the process rests in order.
   */
  readonly restedEpoch?: number
  readonly limited?: boolean
  /** Tell workers that it is due at another time than they know of. */
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
  readonly rest?: Rest
  /** Whose write it is, for reports. */
  readonly by?: WrittenBy
}

/** What an execution had not heard of when it wanted to rest. */
export interface News {
  readonly cancel: 'PLAIN' | 'COMPENSATE' | null
  readonly responses: readonly RecordedResponse[]
}

interface NewsRow {
  cancel: 'PLAIN' | 'COMPENSATE' | null
  responses: ResponseRow[] | null
}

export async function writeProcesses(
  executor: Executor,
  writes: readonly ProcessWrite[],
): Promise<Outcome<News | undefined>[]> {
  const [row] = await executor.run<{ answers: (number | NewsRow)[] | null }>(statement, [
    `[${writes.map(toJson).join(',')}]`,
  ])
  const answers = row?.answers
  if (!answers) return writes.map(() => ({ done: undefined }))
  return writes.map(({ id, epoch }, place) => toOutcome(answers[place], id, epoch))
}

function toOutcome(answer: number | NewsRow | undefined, id: string, epoch: number): Outcome<News | undefined> {
  if (answer === 0) return { done: undefined }
  if (answer === 2) return 'held'
  if (typeof answer === 'object') return { done: toNews(answer) }
  return { failed: new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) }) }
}

export function toNews({ cancel, responses }: NewsRow): News {
  return { cancel, responses: (responses ?? []).map(toResponse) }
}

function toJson({ id, epoch, generation, token, events, rest }: ProcessWrite): string {
  const head = `{"id":"${id}","epoch":${epoch},"generation":${generation},"token":"${token}","events":[${events.map(eventToJson).join(',')}]`
  return rest ? `${head},${restToJson(rest)}}` : `${head}}`
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

function restToJson(rest: Rest): string {
  const fields = {
    to_status: rest.status,
    due_ms: rest.dueAt,
    ended: rest.ended,
    responses: rest.heard,
    heard_cancel: rest.heardCancel,
    seen: rest.seen,
    has_projection: rest.state !== undefined,
    projection_notes: rest.state?.notes,
    continues: rest.continues !== undefined,
    unmet: rest.continues?.unmet,
    asked_events: rest.continues?.events,
    result_notes: rest.result?.notes,
    error: rest.error,
    waiting_for: rest.waitingFor,
    wait_timeout_ms: rest.waitTimeoutAt,
    next_retry_ms: rest.nextRetryAt,
    mismatch: rest.mismatch,
    undone: rest.undone,
    rested: rest.restedEpoch,
    limited: rest.limited,
    wakes: rest.wakes,
  }
  const state = rest.state ? `,"projection":${rest.state.json}` : ''
  const result = rest.result ? `,"result":${rest.result.json}` : ''
  return `${JSON.stringify(fields).slice(1, -1)}${state}${result}`
}

const statement = {
  name: 'processes.write',
  text: 'select holdfast.write_processes($1::text::jsonb) as answers',
}
