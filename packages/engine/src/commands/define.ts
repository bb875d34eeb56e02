import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../kernel/duration/duration.js'
import { LONGEST_TIMER } from '../kernel/duration/duration.js'
import type { ClassifyOptions } from '../kernel/failure/classify.js'
import { checkName } from '../kernel/ids/name.js'
import { createDefined, type Defined } from '../kernel/model/index.js'
import { type Retry, retryOption } from '../kernel/retry/retry-option.js'
import type { RetryPolicy } from '../kernel/retry/retry-policy.js'
import { boolean, callback, declareOptions, duration, integer, schema } from '../kernel/validation/declared.js'
import { describe, shown } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { CommandOf } from './reference.js'

type Classify = NonNullable<ClassifyOptions['classify']>

export interface CommandOptions<Data extends StandardSchemaV1, Result extends StandardSchemaV1> {
  /** Any Standard Schema (zod, valibot, arktype). Data is parsed once, when it is sent. */
  readonly data?: Data
  readonly result?: Result
  /** Raise it when the schema changes: data that was sent under another version is parsed again by the worker. */
  readonly version?: number
  /** How often a handler is called, and the delays between calls. Default: those of the worker. */
  readonly retry?: Retry
  /** How long a call may take before its AbortSignal fires and it counts as a transient failure. */
  readonly timeout?: Duration
  /** How long `ctx.transaction` of its handler may take before it is rolled back. Default: 30 s. */
  readonly transactionTimeout?: Duration
  /**
   * Never call the handler again without knowing that the call before had no effect: after an error that is not a
   * refusal, a timeout or a crash, the handler's `inquire` is called first. If it has none, or the outcome stays unknown, the command
   * waits for a person with the code OUTCOME_UNKNOWN. Default: false.
   */
  readonly atMostOnce?: boolean
  /** Returns the kind of errors that have none of their own. */
  readonly classifyError?: Classify
}

/**
 * A type of command: what is sent, and what its handler returns. `Input` is what senders give, `Data` what handlers get after the
 * schema has parsed it.
 */
export interface CommandDefinition<Input = never, Data = unknown, Result = unknown>
  extends CommandOf<Input, Result>,
    Defined<'command'> {
  /** Carries the type for the compiler; never set at run time. */
  readonly handles?: Data
}

/** A definition with what the engine needs of it. Users see `CommandDefinition`. */
export interface DefinedCommand extends Defined<'command'> {
  readonly dataSchema: StandardSchemaV1 | undefined
  readonly resultSchema: StandardSchemaV1 | undefined
  readonly maxAttempts: number | undefined
  readonly retry: RetryPolicy | undefined
  readonly timeoutMs: number | undefined
  readonly transactionTimeoutMs: number | undefined
  readonly atMostOnce: boolean
  readonly classifyError: Classify | undefined
}

const commands = createDefined<DefinedCommand>()

/** What the engine reads of a definition; undefined where it is the names of a type alone. */
export const definedCommand = commands.of

const timeLimit = duration({ min: '1ms', max: LONGEST_TIMER })
const checkCommandOptions = declareOptions({
  data: schema,
  result: schema,
  version: integer({ min: 1, max: 1_000_000_000, default: 1 }),
  retry: retryOption,
  timeout: timeLimit,
  transactionTimeout: timeLimit,
  atMostOnce: boolean({ default: false }),
  classifyError: callback<Classify>(),
})

/**
 * Declares a command of a domain. Senders and handlers get its types.
 *
 * @example
 * const BookRisk = defineCommand('payments', 'BookRisk', {
 *   data: z.object({ paymentId: z.string(), amount: z.number() }),
 *   result: z.object({ reference: z.string() }),
 *   retry: { maxAttempts: 5, delay: '2s' },
 * })
 */
export function defineCommand<
  Data extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  Result extends StandardSchemaV1 = StandardSchemaV1<unknown>,
>(
  domain: string,
  type: string,
  options: CommandOptions<Data, Result> = {},
): CommandDefinition<
  StandardSchemaV1.InferInput<Data>,
  StandardSchemaV1.InferOutput<Data>,
  StandardSchemaV1.InferOutput<Result>
> {
  const where = `defineCommand ${shown(domain)}/${shown(type)}`
  const { data, result, retry, timeout, transactionTimeout, ...given } = checkCommandOptions(where, options)
  checkName(where, 'domain', domain)
  checkName(where, 'type', type)
  return commands.publish({
    kind: 'command',
    domain,
    type,
    name: `${domain}/${type}`,
    dataSchema: data,
    resultSchema: result,
    maxAttempts: retry.maxAttempts,
    retry: retry.policy,
    timeoutMs: timeout,
    transactionTimeoutMs: transactionTimeout,
    ...given,
  })
}

/** Refuses what was not created with `defineCommand`, such as an import that is undefined because of circular modules. */
export function checkCommand(where: string, definition: unknown): DefinedCommand {
  const defined = definedCommand(definition)
  if (defined) return defined
  throw invalidOption(where, 'definition', `must be made with defineCommand, not ${describe(definition)}`)
}
