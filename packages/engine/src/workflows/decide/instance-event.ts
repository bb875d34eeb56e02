import type { Failure } from '../../kernel/failure/classify.js'
import type { CallKind, Payload } from './state.js'

/** The person or program that acts, and why. */
export interface By {
  readonly actor: string
  readonly reason: string
}

/**
 * What a worker knows of a failed call besides its error: that the handler was never called (bad input, a veto), or that
 * `inquire` said that it had no effect. Otherwise the error itself decides.
 */
export type KnownOfCall = 'notBegun' | 'notDone'

/**
 * What a person found out about a call of unknown outcome; or `skip`: the step counts as done, and its input is passed on as its
 * output.
 */
export type Answer = 'notDone' | 'skip' | { readonly done: Payload }

/** What is known of a call that was lost, where a claim finds one. */
export interface LostCall {
  /** The worker can inquire about it. */
  readonly canInquire?: boolean
  /** It uses up no attempt: it was interrupted by an orderly stop, or lost beside other work. */
  readonly uncounted?: boolean
}

/** What can happen to an instance. A worker reports the first nine; people cause the others. */
export type InstanceEvent =
  /** A worker may have checked the input that nothing else has: `input` is what the schema made of it, `refused` says that it does not fit. */
  | { readonly type: 'started'; readonly input?: Payload; readonly refused?: Failure }
  /** A worker took the queue item. If another worker had it before, that call is lost. */
  | ({ readonly type: 'claimed'; readonly step: string; readonly kind: CallKind } & LostCall)
  | { readonly type: 'completed'; readonly step: string; readonly output: Payload }
  | { readonly type: 'failed'; readonly step: string; readonly failure: Failure; readonly known?: KnownOfCall }
  | { readonly type: 'compensated'; readonly step: string }
  | {
      readonly type: 'compensation_failed'
      readonly step: string
      readonly failure: Failure
      readonly known?: KnownOfCall
    }
  /** The call was aborted, and its handler ignored its signal and did not end: its outcome is unknown. */
  | { readonly type: 'abandoned'; readonly step: string; readonly kind: CallKind }
  /** The worker was stopped in order during the call: its outcome is unknown, and it does not count as a crash. */
  | { readonly type: 'interrupted'; readonly step: string; readonly kind: CallKind }
  /** Claimed, and not called: the attempt does not count. */
  | {
      readonly type: 'released'
      readonly step: string
      readonly kind: CallKind
      readonly because: 'handler_missing' | 'stopping'
      /** Without a history event: the missing handler was reported not long ago. */
      readonly quiet?: boolean
    }
  | { readonly type: 'decided'; readonly step: string; readonly decision: HumanChoice; readonly by: By }
  | { readonly type: 'cancel'; readonly by: By }
  | { readonly type: 'abort'; readonly by: By }
  /**
   * The dead letter of a step, or of its compensation, is tried again, with another input if one is given; or a person says
   * what became of its call.
   */
  | {
      readonly type: 'requeued'
      readonly step: string
      readonly input?: Payload
      readonly answer?: Answer
      readonly by: By
    }

export type HumanChoice = 'confirm' | 'reject'
