import type { Lease } from '../kernel/model/index.js'
import type { ReceivedCommand } from './queries/receive-commands.js'
import type { RegisteredHandler } from './registry.js'

/** One received command on its way through the executor: what is known of it, and how far it has come. */
export class CommandCall {
  readonly command: ReceivedCommand
  readonly lease: Lease<ReceivedCommand>
  readonly handler: RegisteredHandler | undefined
  readonly maxAttempts: number
  /** Completed by its own transaction. */
  finished = false
  /** The end of the attempt is decided; what its handler still does has no effect. */
  ended = false
  /** The handler's code is running. */
  running = false
  /** The handler was called by this attempt, and has not said that nothing was done. */
  mayHaveActed = false
  /**
   * Whether a call that must not be repeated may have had its effect without being on record. A message that was read
   * before is the record that a call may have begun: a read that was released in order does not count.
   */
  unknown: boolean

  /** Which attempt this is: receives that were interrupted, or lost beside other work, are not counted. */
  get attempt(): number {
    return this.command.epoch - this.command.uncounted
  }

  /**
   * Set if nothing of it may be called any more, `inquire` included: its worker has died in it as often as it has
   * attempts, and once more in the inquiry about them.
   */
  get diesAlone(): string | undefined {
    const times = this.command.lost?.alone ?? 0
    return times > this.maxAttempts ? `its worker died ${times} times while nothing else ran beside it` : undefined
  }

  constructor(
    command: ReceivedCommand,
    lease: Lease<ReceivedCommand>,
    handler: RegisteredHandler | undefined,
    maxAttempts: number,
  ) {
    this.command = command
    this.lease = lease
    this.handler = handler
    this.maxAttempts = maxAttempts
    this.unknown = this.atMostOnce && (command.epoch > 1 || command.inquiry !== null)
  }

  /**
   * What is recorded of its effect with a failed attempt. Of calls that must not be repeated all is known here, since each
   * was inquired about before the next. Of others, what is on record stays.
   */
  get effect(): 'unknown' | 'none' | undefined {
    if (this.atMostOnce) return this.unknown ? 'unknown' : 'none'
    return this.mayHaveActed ? 'unknown' : undefined
  }

  get atMostOnce(): boolean {
    return this.handler?.definition.atMostOnce === true
  }

  /** What is recorded with a failed attempt: how its outcome can be found out, if that is unknown. */
  get inquiry(): 'possible' | 'impossible' | null {
    // Without a handler nothing is known of the definition: what is on record stays.
    if (!this.handler) return this.command.inquiry
    if (!this.unknown) return null
    return this.handler.inquire ? 'possible' : 'impossible'
  }
}
