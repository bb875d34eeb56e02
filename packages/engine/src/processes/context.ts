// The types of `ctx`, which user code gets in `execute`: public API, with the documentation of each method.
// `execution/user-context.ts` implements them.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { CommandDefinition } from '../commands/index.js'
import type { Duration } from '../kernel/duration/duration.js'
import type { CallOutcome, CompensateIf, Inquiry, Logger, Queryable } from '../kernel/model/index.js'
import type { Retry, RetryCount } from '../kernel/retry/retry-option.js'

/** What a step's own code gets. */
export interface StepCall {
  /** The same on every attempt: pass it to the systems that you call, so that a repeated call has one effect. */
  readonly idempotencyKey: string
  /** The number of this call, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Fires when the time limit is reached, the lease is lost, the process is cancelled or the worker is stopped now. */
  readonly signal: AbortSignal
  readonly logger: Logger
}

export type { Inquiry }

/** What a compensation gets besides the result. */
export interface CompensationCall extends Pick<StepCall, 'idempotencyKey' | 'attempt' | 'signal' | 'logger'> {
  /** The idempotency key of the call that is undone: what the other side knows it by. */
  readonly originalKey: string
  /**
   * What is known of the call that is undone. `completed`: it returned its result. `unknown`: its worker died, its time was up,
   * or it threw an error that does not say that nothing was done; undo it if it was done, and do not fail if it was not.
   * `refused`: it said that nothing was done (only with `compensateIf: 'attempted'`).
   */
  readonly outcome: CallOutcome
}

/** How a compensation is tried. */
interface CompensationPolicy {
  /** How often `compensate` is called, and how long apart. Default: 3 times, after 1 s, doubled each time. */
  readonly compensateRetry?: Retry
  /** Of each call of `compensate`. Default: 30 s. */
  readonly compensateTimeout?: Duration
}

export interface Compensation<Result> extends CompensationPolicy {
  /** Undoes the call. Gets the recorded result, and `undefined` where the call has none (see `call.outcome`). */
  readonly compensate?: (result: Result | undefined, call: CompensationCall) => unknown
  /**
   * Which calls are undone. `'possible'`: those that have completed and those of unknown outcome. `'completed'`: only the former.
   * `'attempted'`: also those that were refused. Default: `'possible'`.
   */
  readonly compensateIf?: CompensateIf
}

/** Into troubleshooting (default), or thrown into your code as `StepFailed`. */
export type OnFailure = 'tsq' | 'throw'

export interface StepOptions<Result> extends Compensation<Result> {
  /** How often the step is called, and how long apart. Default: once; with more attempts after 1 s, doubled each time. */
  readonly retry?: Retry
  /** Default: 30 s. */
  readonly timeout?: Duration
  readonly rateLimit?: { readonly key: string; readonly maxWait?: Duration }
  readonly onFailure?: OnFailure
  /** Never call twice: what is unknown, whatever was thrown, is inquired about, or goes to troubleshooting. */
  readonly atMostOnce?: boolean
  readonly inquire?: (call: Pick<StepCall, 'idempotencyKey' | 'signal'>) => Promise<Inquiry<Result>> | Inquiry<Result>
  /** Kept in the record beside the result, for people who read the record. */
  readonly request?: unknown
}

export type OnTimeout = 'tsq' | 'compensate' | 'fail' | 'return'

export interface WaitOptions {
  readonly timeout?: Duration
  /** What happens to the process when the time is over. Default: troubleshooting. */
  readonly onTimeout?: OnTimeout
}

export interface TransactionOptions<Result> extends CompensationPolicy {
  readonly retry?: Retry
  /** After this it is rolled back. Default: 30 s. */
  readonly timeout?: Duration
  /** A transaction commits with its record or not at all, so that its outcome is never unknown. */
  readonly compensate?: (result: Result, call: CompensationCall) => unknown
  readonly compensateIf?: 'possible' | 'completed'
  readonly onFailure?: OnFailure
}

export interface CommandCallOptions<Result> extends Compensation<Result> {
  readonly timeout?: Duration
  readonly onTimeout?: Exclude<OnTimeout, 'return'>
  readonly onFailure?: OnFailure
  /** How often the command's handler is called at most. Default: that of its definition. */
  readonly retry?: RetryCount
}

export interface ChildOptions<Result> extends Compensation<Result> {
  readonly key?: string
  readonly timeout?: Duration
  readonly onTimeout?: Exclude<OnTimeout, 'return'>
  readonly onFailure?: OnFailure
}

/** A definition, as far as its starter needs to know it. */
interface Startable<Input, Result> {
  readonly name: string
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

export type ResponseSchemas = Readonly<Record<string, StandardSchemaV1>>

/** The `ctx` of `execute`: every call is recorded, and a replay returns the recorded result. */
export interface ProcessContext<Responses extends ResponseSchemas = ResponseSchemas, State = unknown> {
  readonly id: string
  readonly key: string | null
  /** The version of the definition that this process was started with. */
  readonly version: number
  /** Fires when the process is cancelled, the lease is lost or the worker is stopped now. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /**
   * Calls an external system and records the result. A recorded step is never called again.
   *
   * @example
   * const risk = await ctx.step('bookRisk', ({ idempotencyKey }) => risks.book(payment, idempotencyKey), {
   *   retry: { maxAttempts: 3, delay: '5s' },
   *   compensate: (booking, call) => risks.unwind(booking?.reference ?? call.originalKey),
   * })
   */
  step<Result>(
    name: string,
    work: (call: StepCall) => Promise<Result> | Result,
    options?: StepOptions<NoInfer<Result>>,
  ): Promise<Result>
  /** Your SQL and the step's record in one transaction: exactly once. */
  transaction<Result>(
    name: string,
    work: (tx: Queryable) => Promise<Result>,
    options?: TransactionOptions<NoInfer<Result>>,
  ): Promise<Result>
  /** Runs code whose value may differ each time (a random number, a setting) once, and records the value. */
  sideEffect<Result>(
    name: string,
    work: () => Promise<Result> | Result,
    options?: { readonly timeout?: Duration },
  ): Promise<Result>
  /** Waits until the condition on the state holds. False only when the time is over and `onTimeout` is `'return'`. */
  wait(name: string, condition: () => boolean, options?: WaitOptions): Promise<boolean>
  /** Waits for the next response of that name and returns its data; undefined only as for `wait`. */
  event<Name extends keyof Responses & string>(
    name: string,
    response: Name,
    options?: WaitOptions & { readonly onTimeout?: Exclude<OnTimeout, 'return'> },
  ): Promise<StandardSchemaV1.InferOutput<Responses[Name]>>
  event<Name extends keyof Responses & string>(
    name: string,
    response: Name,
    options: WaitOptions,
  ): Promise<StandardSchemaV1.InferOutput<Responses[Name]> | undefined>
  /** Suspends the process for a time, or until a moment. */
  sleep(name: string, until: Duration | Date): Promise<void>
  /** Sends a command and waits for its final reply. */
  command<Input, Data, Result>(
    name: string,
    command: CommandDefinition<Input, Data, Result>,
    data: NoInfer<Input>,
    options?: CommandCallOptions<NoInfer<Result>>,
  ): Promise<Result>
  /** Starts another process and waits for its result. */
  child<Input, Result>(
    name: string,
    process: Startable<Input, Result>,
    state: NoInfer<Input>,
    options?: ChildOptions<NoInfer<Result>>,
  ): Promise<Result>
  /** The time of the last recorded event: the same on every replay. */
  now(): Date
  /** The same ones on every replay. */
  uuid(): string
  random(): number
  /**
   * Ends this history and continues with a fresh one that begins with this state: the state as `execute` has it, which is not
   * parsed again. Responses that have not been read yet are carried over.
   *
   * Compensations are not carried over: the calls that they belong to are left behind with the history. While a failure, a cancel or a deadline
   * could still want them, the process goes to troubleshooting with HF_CONTINUE_WITH_COMPENSATIONS instead; `keepEffects: true`
   * says that their effects stay. Commands, children and steps that have not ended are refused with
   * HF_CONTINUE_WITH_OPEN_CALLS: await them first.
   */
  continueAsNew(state: State, options?: { readonly keepEffects?: boolean }): Promise<never>
}
