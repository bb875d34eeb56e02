import type {
  By,
  CancelOptions,
  Handle,
  RecordedAuditEntry,
  ResultOptions,
  Started,
  Why,
} from '../kernel/model/index.js'
import type { CommandCalls, RetryCommandOptions } from './calls.js'
import type { CommandRecord } from './queries/find-commands.js'
import type { CommandOf } from './reference.js'

/**
 * One command. Made by `hf.send` and by `hf.command`; making it costs no query, and a command that does not exist is refused by
 * each call with `HF_NOT_FOUND`.
 *
 * Operations take `{ actor, reason }` and are audited. An operation that the status of the command does not allow is refused with
 * `HF_WRONG_STATUS` and changes nothing. Each operation ends within five seconds: `HF_BUSY` and `HF_DATABASE_UNAVAILABLE` mean that
 * it did not take effect and will not, `HF_OUTCOME_UNKNOWN` that it may have.
 *
 * @example
 * const booking = await hf.send(BookRisk, { amount: 100 }, { key: 'PAY-1' })
 * console.log(await booking.result({ timeout: '10s' }))
 */
export class CommandHandle<Input = never, Result = unknown>
  implements Handle<Result, CommandRecord, RecordedAuditEntry>
{
  /** The id of the command; of one that has a key, the id that is derived from the key. */
  readonly id: string
  readonly #command: CommandOf<Input, Result>
  readonly #calls: CommandCalls

  /** @internal Use `hf.send` or `hf.command`. */
  constructor(calls: CommandCalls, command: CommandOf<Input, Result>, id: string) {
    this.id = id
    this.#command = command
    this.#calls = calls
  }

  /** The command as it is now. */
  get(): Promise<CommandRecord> {
    return this.#calls.get(this.#command, this.id)
  }

  /** Waits for the end and returns the result; rejects with an error that says why if the command did not complete. */
  result(options?: ResultOptions): Promise<Result> {
    return this.#calls.result(this.#command, this.id, options)
  }

  /** Everything that happened to it, oldest first: its entries in the audit trail. */
  history(): Promise<readonly RecordedAuditEntry[]> {
    return this.#calls.history(this.#command, this.id)
  }

  /** What it waits for, and when it will continue. */
  why(): Promise<Why> {
    return this.#calls.why(this.#command, this.id)
  }

  /**
   * Calls the handler of a command in troubleshooting again, with all its attempts.
   *
   * @example
   * await hf.command(BookRisk, id).retry({ actor: 'ann', reason: 'wrong account' }, { data: corrected })
   */
  retry(by: By, options?: RetryCommandOptions<Input>): Promise<void> {
    return this.#calls.retry(this.#command, this.id, by, options)
  }

  /**
   * Ends a command that no worker has received yet, or that is in troubleshooting, as `CANCELLED`. A command has nothing to undo, so
   * `compensate` changes nothing.
   */
  cancel(by: By, options?: CancelOptions): Promise<void> {
    return this.#calls.cancel(this.#command, this.id, by, options)
  }

  /**
   * Ends a command in troubleshooting as if its handler had returned this result. The result is checked against the schema of the
   * definition.
   */
  complete(by: By, result?: Result): Promise<void> {
    return this.#calls.complete(this.#command, this.id, by, result)
  }
}

/** The handle that `hf.send` returns: of a command that it has sent, or that existed already. */
export class SentCommand<Input = never, Result = unknown> extends CommandHandle<Input, Result> implements Started {
  /** Whether this call sent it. False: it existed already, with the same id or key. */
  readonly created: boolean

  /** @internal Use `hf.send`. */
  constructor(calls: CommandCalls, command: CommandOf<Input, Result>, id: string, created: boolean) {
    super(calls, command, id)
    this.created = created
  }
}
