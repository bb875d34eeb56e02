// The changes of one decision, while `decide.ts` collects them: records, the new state, the status, the command to
// send. All rules of this folder write through it. A rule that throws leaves the draft as it was before that rule, and
// the process goes to troubleshooting.

import type { Codec, Encoded } from '../../kernel/codec/codec.js'
import type { Notes } from '../../kernel/codec/notes.js'
import { derivedId } from '../../kernel/ids/derived-id.js'
import type { RecordedFailure, RecordKind, RecordStatus } from '../history.js'
import type { CompletedCommand, ManagedDetail, ManagedProcess, Position } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import type { EndStatus, ProcessStatus } from '../states.js'
import type { Handlers } from './handlers.js'
import type { StepCommand } from './step-command.js'
import { failureIn } from './step-reply.js'

/** A record on its way into the history of a step-based process. */
export interface ManagedEvent {
  readonly seq: number
  readonly kind: RecordKind
  readonly name: string
  readonly occurrence: number
  readonly status: RecordStatus
  readonly attempt?: number
  readonly result?: unknown
  readonly notes?: Notes | null
  readonly detail: ManagedDetail
}

export interface KeptReply {
  readonly number: number
  readonly responseId: string
  readonly reply: StoredReply
}

/** The one command that a decision sends. */
export interface CommandSent {
  readonly commandId: string
  readonly step: string
  readonly command: StepCommand
}

/** What changes with a decision, as far as it has come. */
export interface Changes {
  readonly events: readonly ManagedEvent[]
  /** Undefined until a handler has changed it. */
  readonly state: { readonly value: unknown } | undefined
  readonly encoded: Encoded | undefined
  /** The last reply from outside that is in the state. */
  readonly seen: number
  readonly position: Position
  readonly status: Exclude<ProcessStatus, 'EXECUTING'>
  readonly ended: boolean
  readonly error: RecordedFailure | undefined
  readonly unwind: ManagedProcess['unwind']
  readonly send: CommandSent | undefined
}

export interface DraftOptions {
  readonly managed: ManagedProcess
  /** The steps to compensate, the last one first; read only where they may be needed. */
  readonly completed: readonly CompletedCommand[]
  readonly handlers: Handlers
  readonly codec: Codec
  /** A command that an earlier decision on the same wanted to send, and that cannot be sent. */
  readonly refused?: { readonly commandId: string; readonly error: unknown } | undefined
}

/**
 * A step-based process while its handlers decide. Changes are values that replace each other, so that what a failing
 * handler has begun is taken back as a whole.
 */
export class Draft {
  readonly managed: ManagedProcess
  readonly completed: readonly CompletedCommand[]
  readonly handlers: Handlers
  readonly codec: Codec
  readonly keep: KeptReply[] = []
  changes: Changes
  #refused: DraftOptions['refused']
  #stored: { readonly value: unknown } | undefined

  constructor({ managed, completed, handlers, codec, refused }: DraftOptions) {
    this.managed = managed
    this.completed = completed
    this.handlers = handlers
    this.codec = codec
    this.#refused = refused
    this.changes = {
      events: [],
      state: undefined,
      encoded: undefined,
      seen: managed.seen,
      position: managed.last,
      status: managed.status,
      ended: false,
      error: undefined,
      unwind: managed.unwind,
      send: undefined,
    }
  }

  /** Decoded when a handler needs it: a state that cannot be decoded is then a failure like that of a handler. */
  get state(): unknown {
    const { state, stateNotes } = this.managed
    this.#stored ??= { value: this.codec.decode({ json: state, notes: stateNotes }) }
    return (this.changes.state ?? this.#stored).value
  }

  change(changes: Partial<Changes>): void {
    this.changes = { ...this.changes, ...changes }
  }

  /** What a handler made of the state; encoded at once, so that what cannot be stored is that handler's failure. */
  setState(state: unknown): void {
    this.change({ state: { value: state }, encoded: this.codec.encode(state, { at: 'state' }) })
  }

  /** Appends a record. Those about a step are where the process stands from now on. */
  record(event: Omit<ManagedEvent, 'seq'>): void {
    const { events, position } = this.changes
    const numbered = { ...event, seq: this.managed.seq + events.length + 1 }
    const moved =
      event.kind === 'UNWIND' ? position : { ...numbered, attempt: event.attempt ?? null, at: this.managed.now }
    this.change({ events: [...events, numbered], position: moved })
  }

  end(status: EndStatus, error?: RecordedFailure): void {
    this.change({ status, ended: true, error })
  }

  /**
   * Handles one thing as a whole. Where a handler throws, nothing of it has happened: the reply is on record for the
   * operator's retry, and the process waits for a person.
   */
  attempt(handle: () => void, reply?: StoredReply): void {
    const before = this.changes
    try {
      handle()
      if (this.#refused && this.changes.send?.commandId === this.#refused.commandId) throw this.#refused.error
    } catch (error) {
      this.changes = before
      this.#fail(failureIn(error), reply)
    }
  }

  #fail(error: RecordedFailure, reply: StoredReply | undefined): void {
    const { kind, name, occurrence, status, attempt, detail } = this.changes.position
    const kept = reply ?? detail.reply
    this.record({
      kind,
      name,
      occurrence,
      // A compensation that has failed has its reply; anything else keeps waiting.
      status: status === 'FAILED' ? 'FAILED' : 'WAITING_RETRY',
      ...(attempt === null ? {} : { attempt }),
      detail: { ...detail, error, ...(kept ? { reply: kept } : {}) },
    })
    this.change({ status: 'WAITING_FOR_TSQ', error })
  }

  /** Replies from outside that no step has taken. */
  get ahead(): readonly { readonly number: number; readonly reply: StoredReply }[] {
    return [...this.managed.ahead, ...this.keep].filter(({ number }) => number > this.changes.seen)
  }

  /** Whether the process waits for the reply of this command. */
  awaits(commandId: string | null | undefined): boolean {
    const { status, detail } = this.changes.position
    if (typeof commandId !== 'string' || detail.startedId !== commandId || detail.reply) return false
    return status === 'STARTED' || status === 'WAITING_RETRY'
  }

  /** The id of a command is a function of where it is sent: sent twice is sent once. */
  commandId(kind: 'COMMAND' | 'COMPENSATION', step: string, occurrence: number, attempt = 1): string {
    const { id, generation } = this.managed
    return derivedId('manager', id, generation, kind, step, occurrence, attempt)
  }
}
