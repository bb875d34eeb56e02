import { newId } from '../../kernel/ids/id.js'
import type { Batcher } from '../../kernel/model/index.js'
import type { HistoryRecord } from '../history.js'
import type { Incoming, JournalEvent, ProcessWrite, Suspension } from '../queries/write-processes.js'
import type { EncodedResult } from './attempted.js'
import type { Call } from './calls.js'
import type { ProcessState } from './process-state.js'

export type NewRecord = Omit<JournalEvent, 'seq' | 'at' | 'seen'>

/** What a record of a call says besides which call it is about, and its result. */
export type CallRecord = Omit<NewRecord, 'kind' | 'name' | 'occurrence' | 'encoded'>

export function recordOf({ spec, name, occurrence }: Call, fields: CallRecord, result?: EncodedResult): NewRecord {
  const record = { kind: spec.kind, name, occurrence, ...fields }
  if (!result) return record
  return result.encoded
    ? Object.assign(record, { encoded: result.encoded })
    : Object.assign(record, { detail: { ...fields.detail, nothing: true } })
}

interface JournalOptions {
  readonly id: string
  readonly epoch: number
  readonly generation: number
  readonly by?: ProcessWrite['by']
  readonly state: ProcessState
  readonly now: () => number
  readonly writes: Batcher<ProcessWrite, Incoming | undefined>
}

/** No response has this number. */
const UNKNOWN = -1

/**
 * What an execution records. Events take their sequence number when they are appended, and go out together: the record
 * of a step shares its write with whatever comes next (the next step's start waits for it, a pause or the end takes it
 * along). Nothing is called outside before everything that led to it is committed.
 */
export class Journal {
  /** The last sequence number used. */
  seq = 0
  /** The last response that the record knows of. */
  seenOnRecord: number
  /** The time of the last record. */
  at: number
  /** Set from when a transaction of the user's has numbered its record until that has arrived: nothing may overtake it. */
  committing: Promise<void> | undefined
  #commitOver: (() => void) | undefined
  #options: JournalOptions
  #unwritten: JournalEvent[] = []
  #inFlight: Promise<void> | undefined
  #flushing = false
  /** Why a write failed: code that waited for it must not continue as if it had been committed. */
  #broken: Error | undefined

  constructor(options: JournalOptions, at: number) {
    this.#options = options
    this.at = at
    this.seenOnRecord = options.state.seen
  }

  get dirty(): boolean {
    return this.#unwritten.length > 0
  }

  /** Something has taken effect in user code that a crash would take back. */
  get uncommitted(): boolean {
    return this.dirty || this.#flushing
  }

  /** This record of the history was replayed: new ones come after it. */
  replayed({ seq, at, seen }: Pick<HistoryRecord, 'seq' | 'at' | 'seen'>): void {
    this.seq = seq
    this.at = Math.max(this.at, at)
    this.seenOnRecord = seen ?? this.seenOnRecord
  }

  append(record: NewRecord): JournalEvent {
    const event = this.#number(record)
    this.#unwritten.push(event)
    return event
  }

  #number(record: NewRecord): JournalEvent {
    const { state, now } = this.#options
    this.seq += 1
    // Never before what came before it, and whole milliseconds: a replay reads the same.
    this.at = Math.max(this.at, Math.floor(now()))
    const seen = state.seen === this.seenOnRecord ? null : state.seen
    this.seenOnRecord = state.seen
    return Object.assign(record, { seq: this.seq, at: this.at, seen })
  }

  /** Resolves when everything appended so far is committed. */
  flush(): Promise<void> {
    if (this.#inFlight) return this.#inFlight.then(() => this.flush())
    if (this.#broken) return Promise.reject(this.#broken)
    if (!this.dirty) return Promise.resolve()
    const write = this.write(this.#unwritten)
    this.#unwritten = []
    this.#flushing = true
    const over = (error?: Error) => {
      this.#flushing = false
      this.#broken = error
      if (error) throw error
    }
    return this.#fly(this.#options.writes.write(write).then(() => over(), over))
  }

  /** Ends the execution, unless something came in that it must handle first. */
  async suspend(suspension: Suspension): Promise<Incoming | undefined> {
    while (this.#inFlight) await this.#inFlight
    const incoming = await this.#options.writes.write({ ...this.write(this.#unwritten), suspension })
    if (!incoming) this.#unwritten = []
    return incoming
  }

  /** The write of a transaction's own record. What has taken effect before it goes along: no crash may part them. */
  beginCommit(record: NewRecord): { readonly event: JournalEvent; readonly write: ProcessWrite } {
    this.committing = new Promise<void>((resolve) => {
      this.#commitOver = resolve
    })
    const before = this.#unwritten.slice()
    const event = this.#number(record)
    return { event, write: this.write([...before, event]) }
  }

  /** It has committed, and with it everything that was appended before its record. */
  committed(event: JournalEvent): void {
    this.#unwritten = this.#unwritten.filter(({ seq }) => seq > event.seq)
  }

  /** It has not: the number stays unused, and the next record says again which responses are in the state. */
  rolledBack(event: JournalEvent): void {
    if (event.seen !== null) this.seenOnRecord = UNKNOWN
  }

  /** What the transaction came to has arrived. */
  endCommit(): void {
    this.#commitOver?.()
    this.committing = undefined
  }

  /** Prevents all other writes while a transaction of user code has locked the row. */
  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    await this.flush()
    while (this.#inFlight) await this.#inFlight
    return this.#fly(work())
  }

  private write(events: readonly JournalEvent[]): ProcessWrite {
    const { id, epoch, generation, by } = this.#options
    return { id, epoch, generation, token: newId(), events, ...(by ? { by } : {}) }
  }

  #fly<T>(flight: Promise<T>): Promise<T> {
    const land = () => {
      this.#inFlight = undefined
    }
    this.#inFlight = flight.then(land, land)
    return flight
  }
}
