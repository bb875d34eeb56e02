import type { By } from '../audit/audit.js'
import { type ErrorCode, HoldfastError } from '../errors.js'
import type { Model } from './handle.js'

/** The result for one of many: every call on many pieces of work returns a list of these. */
export interface BulkResult {
  /** Missing if no model has work with this id that needs a person. */
  readonly model?: Model
  readonly id: string
  /** Of a workflow: an instance may need a person in several steps. */
  readonly step?: string
  readonly outcome: 'done' | 'refused'
  /** Why it was refused. */
  readonly code?: ErrorCode
  readonly message?: string
}

/** What an operator can do with work that needs a person. */
export type TroubleVerb = 'retry' | 'complete' | 'cancel' | 'skip'

/** The requested operation, checked, in the same form for all models. */
export interface BulkCall {
  readonly verb: TroubleVerb
  readonly by: By
  /** Of a retry: a person found out that calls of unknown outcome were not done. */
  readonly notDone: boolean
  /** Of a cancel: whether what was done is undone. */
  readonly compensate: boolean
  /** Of a complete; undefined: none was given. */
  readonly result: unknown
}

export interface BulkItem {
  readonly id: string
  /** Which of the failed steps, in models where work can have several. */
  readonly step: string | null
}

/**
 * How a model acts on many pieces of its work that need a person. `hf.trouble` selects them, groups them by definition and cuts them
 * into parts; a model does each part in one operator call. Work that no longer needs a person is left alone and refused.
 */
export interface BulkOperator {
  /** The most that one transaction does well within the time of an operator's call. */
  readonly atOnce: number
  /** One refusal per item, in their order; undefined if it was done. Throws an error that applies to all of them. */
  operate(
    call: BulkCall,
    of: { readonly domain: string; readonly type: string },
    items: readonly BulkItem[],
  ): Promise<readonly (HoldfastError | undefined)[]>
}

/** Another operator acted before, or the work continued by itself. */
export function notInTrouble(
  model: Model,
  { domain, type }: { readonly domain: string; readonly type: string },
  id: string,
): HoldfastError<'HF_NOT_IN_TROUBLE'> {
  return new HoldfastError('HF_NOT_IN_TROUBLE', { model, domain, type, id })
}
