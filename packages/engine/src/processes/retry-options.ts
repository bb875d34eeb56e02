import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../kernel/duration/duration.js'
import type { ResponseSchemas } from './context.js'

/** Data that corrects the state, given as one of the definition's responses: recorded like one, applied like one. */
export type Correction<Responses extends ResponseSchemas> = {
  readonly [Name in keyof Responses & string]: {
    readonly name: Name
    readonly data: StandardSchemaV1.InferInput<Responses[Name]>
  }
}[keyof Responses & string]

export interface RetryOptions<Responses extends ResponseSchemas = ResponseSchemas> {
  /** Recorded with the retry and in the state from then on. */
  readonly response?: Correction<Responses>
  /** A process whose deadline has passed is retried only with a new one: a moment, or a time from now. */
  readonly deadline?: Date | Duration
  /** You have found out that the calls of unknown outcome were not done: they are made again. Default: false. */
  readonly notDone?: boolean
  /** With `notDone`: only this step was not done: `pay`, or `pay#2` where the name is used again. Default: every step of unknown outcome. */
  readonly step?: string
}

/** The same for a definition whose responses are not known. */
export interface AnyRetry extends Omit<RetryOptions, 'response'> {
  readonly response?: { readonly name: string; readonly data: unknown }
}
