// The calls of one execution and what is known of each: its progress, its attempts, its outcome. `user-context.ts` adds
// calls; from then on only the reducer (`apply.ts`) changes them. A call is identified by its name and occurrence.

import { HoldfastError } from '../../kernel/errors.js'
import type { CallOutcome } from '../../kernel/model/index.js'
import { type CallKind, callId } from '../history.js'
import type { CallSpec } from './call-spec.js'
import type { FinalDecision } from './decisions.js'
import { Mismatch } from './mismatch.js'

/**
 * Where a call stands: found and not begun, its code is running, between two attempts, waiting for something outside,
 * failed and left to a person, settled.
 */
export type Progress = 'new' | 'running' | 'retrying' | 'waiting' | 'failed' | 'settled'

/** One call of user code, identified by its name and occurrence. Only the reducer (`apply.ts`) writes to it. */
export class CallState {
  readonly spec: CallSpec
  readonly name: string
  readonly occurrence: number
  readonly id: string
  /**
   * What user code awaits; gone once it is settled. A settled call is kept to the end, and its promise would keep the value with it,
   * which may be large and which user code may have let go of.
   */
  promise: Promise<unknown> | undefined
  settlers: { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void } | undefined
  progress: Progress = 'new'
  /** Calls of its code that have failed since it began, or since an operator's retry. */
  attempts = 0
  /** When the next attempt is due, or the wait times out. */
  nextAt: number | undefined
  /**
   * It is on record that its code is about to be called, and not how that ended; of a command or child: it may have been
   * started, and it is not known whether it was.
   */
  begun = false
  /** Of a command or child: it was started, and its end has not come. */
  underWay = false
  /** Its wait is on record. */
  armed = false
  /** Where its last record stands; compensations go in the reverse order of it. */
  lastSeq = 0
  result: unknown
  /** What its failure makes of the process, where no user code gets it. */
  failedAs: FinalDecision | undefined
  /** How its attempts ended, as far as their ends are known. */
  ended: CallOutcome | undefined

  constructor(spec: CallSpec, name: string, occurrence: number) {
    this.spec = spec
    this.name = name
    this.occurrence = occurrence
    this.id = callId(name, occurrence)
    this.promise = new Promise((resolve, reject) => {
      this.settlers = { resolve, reject }
    })
    // User code that lets go of the promise must not end the program.
    this.promise.catch(() => undefined)
  }

  /** Lets user code go on with what it awaits. */
  settle(outcome: { readonly value: unknown } | { readonly error: Error }): void {
    if ('error' in outcome) this.settlers?.reject(outcome.error)
    else this.settlers?.resolve(outcome.value)
    this.settlers = undefined
    this.promise = undefined
  }

  /** What is known of its effect; undefined: it has not begun. */
  get outcome(): CallOutcome | undefined {
    if (this.ended === 'completed') return this.ended
    return this.begun || this.underWay ? 'unknown' : this.ended
  }
}

/** A call as all but the reducer see it. */
export type Call = Readonly<CallState>

/** All calls of an execution, in the order in which user code made them. */
export class Calls {
  #byId = new Map<string, CallState>()
  /** Apart, so that the thousandth call costs what the first did. */
  #open = new Set<CallState>()
  #uses = new Map<string, { kind: CallKind; count: number }>()

  add(name: string, spec: CallSpec): Call {
    const use = this.#uses.get(name)
    if (use && use.kind !== spec.kind) {
      throw new HoldfastError('HF_STEP_NAME_REUSED', { name, first: use.kind, second: spec.kind })
    }
    const occurrence = (use?.count ?? 0) + 1
    this.#uses.set(name, { kind: spec.kind, count: occurrence })
    const call = new CallState(spec, name, occurrence)
    if (spec.kind === 'WAIT' || spec.kind === 'EVENT' || spec.kind === 'SLEEP') call.progress = 'waiting'
    this.#byId.set(call.id, call)
    this.#open.add(call)
    return call
  }

  /** What the next call of that name will be called. */
  nextId(name: string): string {
    return callId(name, (this.#uses.get(name)?.count ?? 0) + 1)
  }

  /** The call that a record is about; the code does not fit its history if it has not made it. */
  recorded(kind: string, name: string, occurrence: number): CallState {
    const call = this.#byId.get(callId(name, occurrence))
    if (call?.spec.kind === kind) return call
    const found = call ? `${call.spec.kind} \`${call.id}\`` : describeOpen(this.open())
    throw new Mismatch(`${kind} \`${callId(name, occurrence)}\``, found)
  }

  with(progress: Progress): CallState[] {
    const found: CallState[] = []
    for (const call of this.#open) if (call.progress === progress) found.push(call)
    return found
  }

  /** Those that have not settled, in the order in which they were made. */
  open(): ReadonlySet<Call> {
    return this.#open
  }

  settled(call: CallState): void {
    call.progress = 'settled'
    this.#open.delete(call)
  }

  all(): Iterable<Call> {
    return this.#byId.values()
  }
}

function describeOpen(open: ReadonlySet<Call>): string {
  if (open.size === 0) return 'that no call is open'
  return [...open].map((call) => `${call.spec.kind} \`${call.id}\``).join(', ')
}
