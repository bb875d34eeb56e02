// The history of a process for people: turns the stored records into entries with times, attempts and results. Handles
// return it as `history()`. It reads only. Records of older releases must stay readable.

import type { Codec } from '../kernel/codec/codec.js'
import { decodeOrRaw } from '../kernel/codec/decode-or-raw.js'
import type { RecordedAuditEntry } from '../kernel/model/index.js'
import { callId, type RecordKind, type RecordStatus } from './history.js'
import type { TimelineRecord, TimelineResponse, TimelineSources } from './queries/find-timeline.js'

/** What an entry is about. A transaction and a child are steps too; an event and a sleep are waits. */
export type TimelineType = 'COMMAND' | 'STEP' | 'WAIT' | 'SIDE_EFFECT' | 'ASYNC_RESPONSE' | 'COMPENSATION' | 'EVENT'

export type TimelineEvent =
  | 'PROCESS_CREATED'
  | 'COMPENSATION_SUCCESS'
  | 'COMPENSATION_FAILED'
  | 'WAIT_TIMEOUT'
  | 'DEADLINE_EXCEEDED'
  | 'LATE_ASYNC_RESPONSE'
  | 'TSQ_RETRY'
  | 'TSQ_RESOLVE'
  | 'TSQ_CANCEL'
  | 'TSQ_COMPLETE_OVERRIDE'
  | 'CANCEL_REQUESTED'
  | 'OPERATOR_RESUME'
  | 'RESPONSE_REFUSED'

/** One event of a process. Fields that do not apply are missing. */
export interface TimelineEntry {
  readonly at: Date
  /** `EVENT` where it is nothing but an event. */
  readonly type: TimelineType
  readonly event?: TimelineEvent
  /** The call (`bookRisk`, `bookRisk#2`), the response, or the compensated step. */
  readonly name?: string
  /** The kind of the call, if `type` is less exact: a transaction, a child, an event, a sleep. */
  readonly kind?: RecordKind
  readonly status?: RecordStatus
  readonly attempt?: number
  readonly maxAttempts?: number
  /** When the call of your code began; `at` is when it had ended. */
  readonly startedAt?: Date
  readonly nextRetryAt?: Date
  readonly request?: unknown
  /** What a call returned, or the data of a response. */
  readonly result?: unknown
  readonly error?: { readonly kind: string; readonly code: string; readonly message: string }
  /** Of a wait: whether its condition was met; its time limit in milliseconds, and when that is over. */
  readonly satisfied?: boolean
  readonly timeout?: number
  readonly timeoutAt?: Date
  /** Of a wait: the number of the last response in the state. */
  readonly lastResponseSeen?: number
  /** Of a response: its number, and the call that was waiting for it. */
  readonly number?: number
  readonly met?: string
  /** The command or child process that a call has started. */
  readonly startedId?: string
  /** Of a call that has not completed: whether it was refused, or its outcome is unknown. */
  readonly outcome?: 'refused' | 'unknown' | 'notDone'
  readonly actor?: string
  readonly reason?: string
  readonly before?: unknown
  readonly after?: unknown
  readonly detail?: unknown
}

const types: Readonly<Record<Exclude<RecordKind, 'UNWIND' | 'RETRY' | 'RESUME' | 'RESOLVE'>, TimelineType>> = {
  STEP: 'STEP',
  TRANSACTION: 'STEP',
  CHILD: 'STEP',
  SIDE_EFFECT: 'SIDE_EFFECT',
  WAIT: 'WAIT',
  EVENT: 'WAIT',
  SLEEP: 'WAIT',
  COMMAND: 'COMMAND',
  COMPENSATION: 'COMPENSATION',
}

/**
 * History, responses and audit in one list. The history is in its own order; a response comes before the record that
 * has seen it, and everything else by its time: the clocks of a worker and of the database are not compared to the
 * millisecond.
 */
export function timelineOf(
  createdAt: Date,
  { records, responses, audit }: TimelineSources,
  codec: Codec,
): TimelineEntry[] {
  const told: TimelineEntry[] = [{ at: createdAt, type: 'EVENT', event: 'PROCESS_CREATED' }]
  const operations = byPlace(audit)
  const arrivals = responses.map((response) => ({ response, at: response.at.getTime() }))
  const notes = audit
    .filter((entry) => placeOf(entry) === undefined)
    .map((entry) => ({ entry, at: entry.at.getTime() }))

  function tellUntil(at: number, seen: number): void {
    for (;;) {
      const arrival = arrivals[0]
      const note = notes[0]
      const ripe = arrival && (arrival.at <= at || arrival.response.number <= seen)
      if (ripe && (!note || arrival.at <= note.at || note.at > at)) {
        arrivals.shift()
        told.push(responseEntry(arrival.response, records, codec))
      } else if (note && note.at <= at) {
        notes.shift()
        told.push(eventEntry(note.entry))
      } else return
    }
  }

  // Unknown at first if the list is cut: only changes are on record.
  let seen = records[0]?.generation === 1 && records[0].seq === 1 ? 0 : undefined
  for (const record of records) {
    seen = record.seen ?? seen
    tellUntil(record.at.getTime(), seen ?? 0)
    const entry = recordEntry(record, { seen, by: operations.get(place(record)), codec })
    if (entry) told.push(entry)
  }
  tellUntil(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
  return told
}

const place = ({ generation, seq }: { readonly generation: number; readonly seq: number }) => `${generation} ${seq}`

/** What an operator did is in the history and in the audit; the audit says where in the history. */
function placeOf({ detail }: RecordedAuditEntry): string | undefined {
  if (typeof detail !== 'object' || detail === null || !('seq' in detail) || !('generation' in detail)) return undefined
  return place({ generation: Number(detail.generation), seq: Number(detail.seq) })
}

function byPlace(audit: readonly RecordedAuditEntry[]): ReadonlyMap<string, RecordedAuditEntry> {
  const known = new Map<string, RecordedAuditEntry>()
  for (const entry of audit) {
    const at = placeOf(entry)
    if (at !== undefined) known.set(at, entry)
  }
  return known
}

interface Beside {
  readonly seen: number | undefined
  readonly by: RecordedAuditEntry | undefined
  readonly codec: Codec
}

function recordEntry(record: TimelineRecord, { seen, by, codec }: Beside): TimelineEntry | undefined {
  const { kind, at, detail } = record
  switch (kind) {
    case 'RETRY':
    case 'RESUME':
    case 'RESOLVE':
      return by ? eventEntry(by) : undefined
    case 'UNWIND':
      // The beginning of a compensation is shown as its cause; a deadline is recorded nowhere else.
      return detail?.reason === 'DEADLINE' ? { at, type: 'EVENT', event: 'DEADLINE_EXCEEDED' } : undefined
    default:
      return callEntry(record, types[kind], seen, codec)
  }
}

function callEntry(record: TimelineRecord, type: TimelineType, seen: number | undefined, codec: Codec): TimelineEntry {
  const { at, kind, name, occurrence, status, attempt, nextAt, result, notes, detail } = record
  const event = eventOf(record)
  return {
    at,
    type,
    ...(event ? { event } : {}),
    name: callId(name, occurrence),
    ...(type === kind ? {} : { kind }),
    status,
    ...(attempt === null ? {} : { attempt }),
    ...(detail?.maxAttempts === undefined ? {} : { maxAttempts: detail.maxAttempts }),
    ...(detail?.startedAt === undefined ? {} : { startedAt: new Date(detail.startedAt) }),
    ...(status === 'WAITING_RETRY' && nextAt ? { nextRetryAt: nextAt } : {}),
    ...(detail?.request === undefined ? {} : { request: detail.request }),
    ...(result === null ? {} : { result: decodeOrRaw(codec, result, notes) }),
    ...(detail?.error ? { error: failureOf(detail.error) } : {}),
    ...(detail?.startedId === undefined ? {} : { startedId: detail.startedId }),
    ...(detail?.outcome === undefined ? {} : { outcome: detail.outcome }),
    ...(type === 'WAIT' || kind === 'COMMAND' || kind === 'CHILD' ? waitingPart(record, seen) : {}),
  }
}

function waitingPart(
  { kind, status, nextAt, detail }: TimelineRecord,
  seen: number | undefined,
): Partial<TimelineEntry> {
  const timedOut = detail?.timedOut === true
  return {
    ...(status === 'STARTED'
      ? {}
      : { satisfied: !timedOut && (status === 'COMPLETED' || kind === 'COMMAND' || kind === 'CHILD') }),
    ...(detail?.timeoutMs === undefined ? {} : { timeout: detail.timeoutMs }),
    ...(nextAt === null ? {} : { timeoutAt: nextAt }),
    ...(seen === undefined ? {} : { lastResponseSeen: seen }),
  }
}

function eventOf({ kind, status, detail }: TimelineRecord): TimelineEvent | undefined {
  if (kind === 'COMPENSATION' && status === 'COMPLETED') return 'COMPENSATION_SUCCESS'
  if (kind === 'COMPENSATION' && status === 'FAILED') return 'COMPENSATION_FAILED'
  return detail?.timedOut ? 'WAIT_TIMEOUT' : undefined
}

const failureOf = ({ kind, code, message }: { kind: string; code: string; message: string }) => ({
  kind,
  code,
  message,
})

function responseEntry(
  { number, name, at, data, notes }: TimelineResponse,
  records: readonly TimelineRecord[],
  codec: Codec,
): TimelineEntry {
  const met = records.find((record) => meets(record, number))
  return {
    at,
    type: 'ASYNC_RESPONSE',
    name,
    status: 'COMPLETED',
    number,
    result: decodeOrRaw(codec, data, notes),
    ...(met ? { met: callId(met.name, met.occurrence) } : {}),
  }
}

/** Taken by this call, or the one that made the condition of this wait hold: the last that it has seen. */
function meets({ kind, status, seen, detail }: TimelineRecord, number: number): boolean {
  if (detail?.response !== undefined) return detail.response === number
  return kind === 'WAIT' && status === 'COMPLETED' && !detail?.timedOut && seen === number
}

function eventEntry(entry: RecordedAuditEntry): TimelineEntry {
  const { at, event, actor, reason, before, after, detail } = entry
  return {
    at,
    type: 'EVENT',
    // What is audited of processes is what the events are.
    event: event as TimelineEvent,
    ...(actor === null ? {} : { actor }),
    ...(reason === null ? {} : { reason }),
    ...(before === null ? {} : { before }),
    ...(after === null ? {} : { after }),
    ...(detail === null || placeOf(entry) !== undefined ? {} : { detail }),
  }
}
