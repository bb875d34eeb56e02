import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { By, CancelOptions, Handle, ResultOptions, Started, Why } from '../kernel/model/index.js'
import type { CompleteOptions, CompleteStepOptions } from './completing.js'
import type { ResponseSchemas } from './context.js'
import type { ProcessRecord } from './queries/find-processes.js'
import type { ProcessOf } from './reference.js'
import type { RespondOptions } from './respond.js'
import type { AnyRetry, RetryOptions } from './retry-options.js'
import type { TimelineEntry } from './timeline.js'

export interface HistoryOptions {
  /** How many of the latest records of calls, responses and operations. Default: 1,000. */
  readonly limit?: number
}

/** What the handles of an installation call, each with its definition and its id or key. */
export interface ProcessCalls {
  get(of: ProcessOf<never>, idOrKey: string): Promise<ProcessRecord>
  result(of: ProcessOf<never>, idOrKey: string, options?: ResultOptions): Promise<unknown>
  history(of: ProcessOf<never>, idOrKey: string, options?: HistoryOptions): Promise<readonly TimelineEntry[]>
  why(of: ProcessOf<never>, idOrKey: string): Promise<Why>
  respond(of: ProcessOf<never>, idOrKey: string, name: string, data: unknown, options?: RespondOptions): Promise<void>
  retry(of: ProcessOf<never>, idOrKey: string, by: By, options?: AnyRetry): Promise<void>
  resume(of: ProcessOf<never>, idOrKey: string, by: By): Promise<void>
  cancel(of: ProcessOf<never>, idOrKey: string, by: By, options?: CancelOptions): Promise<void>
  complete(
    of: ProcessOf<never>,
    idOrKey: string,
    by: By,
    result: unknown,
    options?: CompleteOptions | CompleteStepOptions,
  ): Promise<void>
}

/**
 * One process, named by its definition and its id or key. Making a handle costs no query; each call of an unknown id rejects with
 * HF_NOT_FOUND. A class, because `hf.start` makes one per process: its methods are shared.
 *
 * @example
 * const payment = hf.process(Payment, 'PAY-1')
 * await payment.respond('approved', { by: 'ann' })
 * console.log(await payment.result({ timeout: '1m' }))
 */
export class ProcessHandle<Responses extends ResponseSchemas = ResponseSchemas, Result = unknown>
  implements Handle<Result, ProcessRecord<Result>, TimelineEntry>
{
  /** The id, or the key where the handle was made with a key. */
  readonly id: string
  readonly #of: ProcessOf<never>
  readonly #calls: ProcessCalls

  constructor(calls: ProcessCalls, of: ProcessOf<never>, idOrKey: string) {
    this.id = idOrKey
    this.#of = of
    this.#calls = calls
  }

  /** The process as it is now. */
  get(): Promise<ProcessRecord<Result>> {
    // What the typed `execute` returned is what was stored.
    return this.#calls.get(this.#of, this.id) as Promise<ProcessRecord<Result>>
  }

  /** Waits for the end and returns the result; rejects with an error that says why if the process did not complete. */
  result(options?: ResultOptions): Promise<Result> {
    return this.#calls.result(this.#of, this.id, options) as Promise<Result>
  }

  /** Everything that happened to it, oldest first: calls with their attempts, responses, and what operators did. */
  history(options?: HistoryOptions): Promise<readonly TimelineEntry[]> {
    return this.#calls.history(this.#of, this.id, options)
  }

  /** What it waits for, and when it will continue. */
  why(): Promise<Why> {
    return this.#calls.why(this.#of, this.id)
  }

  /** Sends it one of the responses of its definition. */
  respond<Name extends keyof Responses & string>(
    name: Name,
    data: StandardSchemaV1.InferInput<Responses[Name]>,
    options?: RespondOptions,
  ): Promise<void> {
    return this.#calls.respond(this.#of, this.id, name, data, options)
  }

  /**
   * Retries a process that needs a person: the failed call is made again, with all its attempts.
   *
   * @example
   * await hf.process(Payment, 'PAY-1').retry(by, { response: { name: 'ibanCorrected', data: { iban } } })
   */
  retry(by: By, options?: RetryOptions<Responses>): Promise<void> {
    return this.#calls.retry(this.#of, this.id, by, options)
  }

  /** Resumes a process that waits now: its conditions, its next attempt, its start. */
  resume(by: By): Promise<void> {
    return this.#calls.resume(this.#of, this.id, by)
  }

  /** Cancels the process: one that executes ends at its next call, and its `signal` fires. */
  cancel(by: By, options?: CancelOptions): Promise<void> {
    return this.#calls.cancel(this.#of, this.id, by, options)
  }

  /**
   * Ends a process that no worker executes as if it had returned this result. Its commands that no worker has received or that need
   * a person are cancelled, and so are its children; refused while a worker executes one of its commands. Hooks are not called.
   *
   * If a compensation failed, give no result: the failed compensations count as done by hand, and the process continues with the next
   * one and ends as it would have ended.
   */
  complete(by: By, result?: Result, options?: CompleteOptions): Promise<void>
  /**
   * Says that a step of unknown outcome was done and returned this result, or that its failed compensation was done; the process
   * continues.
   *
   * @example
   * await hf.process(Payment, 'PAY-1').complete(by, { reference: 'B-77' }, { step: 'pay' })
   */
  complete(by: By, result: unknown, options: CompleteStepOptions): Promise<void>
  complete(by: By, result?: unknown, options?: CompleteOptions | CompleteStepOptions): Promise<void> {
    return this.#calls.complete(this.#of, this.id, by, result, options)
  }
}

/** The handle that `hf.start` returns. */
export class StartedProcess<Responses extends ResponseSchemas = ResponseSchemas, Result = unknown>
  extends ProcessHandle<Responses, Result>
  implements Started
{
  /** Whether this call started it. False: it existed already, with the same id or key, and nothing was written. */
  readonly created: boolean

  constructor(calls: ProcessCalls, of: ProcessOf<never>, id: string, created: boolean) {
    super(calls, of, id)
    this.created = created
  }
}
