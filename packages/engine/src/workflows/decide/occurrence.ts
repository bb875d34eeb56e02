import type { Failure } from '../../kernel/failure/classify.js'
import type { CallKind, Payload } from './state.js'

/** Somebody who acts, and why. */
export interface By {
  readonly actor: string
  readonly reason: string
}

/** What can happen to an instance. A worker reports the first seven, people cause the rest. */
export type Occurrence =
  | { readonly type: 'started' }
  /** A worker took the queue item. If another worker had it before, that call is lost. */
  | {
      readonly type: 'claimed'
      readonly step: string
      readonly kind: CallKind
      /** The lost call uses up no attempt: it was interrupted by an orderly stop, or lost beside other work (K-26). */
      readonly uncounted?: boolean
    }
  | { readonly type: 'completed'; readonly step: string; readonly output: Payload }
  | { readonly type: 'failed'; readonly step: string; readonly failure: Failure }
  | { readonly type: 'compensated'; readonly step: string }
  | { readonly type: 'compensation_failed'; readonly step: string; readonly failure: Failure }
  /** Claimed, and not called: the attempt does not count. */
  | {
      readonly type: 'given_back'
      readonly step: string
      readonly kind: CallKind
      readonly because: 'handler_missing' | 'stopping'
      /** Without an event: it was told not long ago that the handler is missing. */
      readonly quiet?: boolean
    }
  | { readonly type: 'decided'; readonly step: string; readonly decision: HumanVerdict; readonly by: By }
  | { readonly type: 'cancel'; readonly by: By }
  | { readonly type: 'abort'; readonly by: By }
  /** The dead letter of a step, or of its compensation, is tried again, with another input if one is given. */
  | { readonly type: 'requeued'; readonly step: string; readonly input?: Payload; readonly by: By }

export type HumanVerdict = 'confirm' | 'reject'
