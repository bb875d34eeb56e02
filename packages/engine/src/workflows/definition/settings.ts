// The options of steps, compensations and workflows: their documentation, checks and defaults. The builder and `load.ts` use the same
// checks, so that a definition from JSON is held to the same rules.

import { createCodec } from '../../kernel/codec/codec.js'
import type { Duration } from '../../kernel/duration/duration.js'
import { LONGEST_TIMER } from '../../kernel/duration/duration.js'
import type { CompensateIf } from '../../kernel/model/index.js'
import { type Retry, retryOption } from '../../kernel/retry/retry-option.js'
import { normalizeRetryPolicy, type RetryPolicy } from '../../kernel/retry/retry-policy.js'
import { anything, boolean, declareOptions, duration, integer } from '../../kernel/validation/declared.js'
import { describe } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, integerOption } from '../../kernel/validation/options.js'
import type { Declared } from './declared.js'
import type { CallSettings, CompensationDefinition, Metadata } from './definition.js'

/** How the handler of a step, or of its compensation, is called. */
export interface StepOptions {
  /** How often the handler is called, and how long apart: what the workflow says, or 3 times, after 1 s, doubled each time. */
  readonly retry?: Retry
  /** Before the first call. */
  readonly delay?: Duration
  /** How long a call may take before its AbortSignal fires and it counts as a transient failure. */
  readonly timeout?: Duration
  /** From 0 to 100; a waiting step gains. Default: 50. */
  readonly priority?: number
  /** Given to the handler as it is. */
  readonly metadata?: Metadata
  /**
   * The call must not be made twice. It is repeated only after it was refused, or after the handler's `inquire` returned
   * `'notDone'`; after any other error, a timeout or a crash its outcome is unknown, and the step fails with
   * `OUTCOME_UNKNOWN`. Default: false.
   */
  readonly nonIdempotent?: boolean
}

/** How and when a step is undone. */
export interface CompensationOptions extends StepOptions {
  /**
   * Which calls of the step are undone: those that may have had an effect (`'possible'`), only those known to have had it
   * (`'completed'`), or refused ones too (`'attempted'`). Default: `'possible'`; for the step that made the instance fail,
   * `'attempted'`.
   */
  readonly compensateIf?: CompensateIf
}

export interface WorkflowOptions<Input extends Declared = Declared> {
  /** What it is started with: a Standard Schema, which parses it on start, or a type, `ofType<Order>()`. */
  readonly input?: Input
  /** Raise it when the graph changes: instances keep the version that they began with. Default: 1. */
  readonly version?: number
  /** Steps that failed for good wait for a person instead of being undone. */
  readonly dlq?: boolean
  /** For steps that do not say it themselves. */
  readonly retry?: Retry
  /** How long a worker may be silent about a step of this workflow before another takes it over. */
  readonly lease?: Duration
}

export const callOptionNames = ['retry', 'delay', 'timeout', 'priority', 'metadata', 'nonIdempotent'] as const

const defaultRetry: RetryPolicy = normalizeRetryPolicy({ kind: 'exponential', base: '1s' })
const metadataCodec = createCodec({ maxBytes: 65_536 })

export interface CallDefaults {
  readonly maxAttempts: number
  readonly retry?: RetryPolicy
  readonly priority: number
}

export const compensationOptionNames = [...callOptionNames, 'compensateIf'] as const

/** The compensation of a step, its options filled in. Tried 3 times unless it says otherwise. */
export function checkCompensation(
  where: string,
  { name, handler, priority }: { readonly name: string; readonly handler: string; readonly priority: number },
  options: unknown,
): CompensationDefinition {
  const { compensateIf, ...call } = checkOptions(where, options, compensationOptionNames)
  const chosen = choiceOption(where, 'compensateIf', compensateIf, ['possible', 'completed', 'attempted'], {
    default: undefined,
  })
  const settings = checkCall(where, handler, call, { maxAttempts: 3, priority })
  return { name, ...settings, ...(chosen === undefined ? {} : { compensateIf: chosen }) }
}

/** Fills in what was left out; the result is itself valid options. */
export function checkCall(where: string, handler: string, options: unknown, defaults: CallDefaults): CallSettings {
  const { retry, delay, timeout, priority, metadata, nonIdempotent } = checkOfCall(where, options)
  return {
    handler,
    maxAttempts: retry.maxAttempts ?? defaults.maxAttempts,
    retry: retry.policy ?? defaults.retry ?? defaultRetry,
    delay,
    priority: priority ?? defaults.priority,
    nonIdempotent,
    ...(timeout === undefined ? {} : { timeout }),
    ...checkMetadata(where, metadata),
  }
}

export function checkMetadata(where: string, value: unknown): { readonly metadata?: Metadata } {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidOption(where, 'metadata', `must be an object, not ${describe(value)}`)
  }
  // Through JSON once: it is part of the stored definition, so what is given to handlers is what can be stored.
  const metadata: Metadata = JSON.parse(metadataCodec.encode(value, { at: `${where}: metadata` }).json)
  return { metadata }
}

export interface WorkflowSettings {
  readonly dlq: boolean
  readonly maxAttempts: number
  readonly retry?: RetryPolicy
  readonly lease?: number
}

export function checkWorkflowOptions(where: string, options: unknown): WorkflowSettings {
  const { dlq, lease, retry } = checkOfWorkflow(where, options)
  return {
    dlq,
    maxAttempts: retry.maxAttempts ?? 3,
    ...(retry.policy === undefined ? {} : { retry: retry.policy }),
    ...(lease === undefined ? {} : { lease }),
  }
}

const checkOfCall = declareOptions({
  retry: retryOption,
  delay: duration({ default: 0 }),
  timeout: duration({ min: '1ms', max: LONGEST_TIMER }),
  priority: integer({ min: 0, max: 100 }),
  metadata: anything,
  nonIdempotent: boolean({ default: false }),
} satisfies Record<(typeof callOptionNames)[number], unknown>)
const checkOfWorkflow = declareOptions({
  input: anything,
  version: anything,
  dlq: boolean({ default: false }),
  retry: retryOption,
  lease: duration({ min: '1s', max: '1d' }),
})

export function checkVersion(where: string, version: unknown): number {
  return integerOption(where, 'version', version, { min: 1, max: 999_999_999 })
}
