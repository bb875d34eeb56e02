import type {
  By,
  CancelOptions,
  Handle,
  RecordedAuditEntry,
  ResultOptions,
  Started,
  Why,
} from '../kernel/model/index.js'
import type { ItemCalls } from './items.js'
import type { RescheduleOptions, RetryItemOptions } from './operations.js'
import type { DispatchItemDetails } from './queries/find-items.js'
import type { Accepted } from './queries/schedule-items.js'
import type { DispatchOf } from './reference.js'

/**
 * One item of a dispatch. Making a handle costs no query; each method rejects with HF_NOT_FOUND if there is no such item. Every
 * operation takes `{ actor, reason }`, is audited in its transaction, and rejects with HF_WRONG_STATUS if the status does not allow it.
 *
 * @example
 * await hf.item(Settlement, 'PAY-1').reschedule({ actor: 'ann', reason: 'the customer called' }, { startAt: fiveOClock })
 */
export class ItemHandle<Input = unknown, Result = unknown>
  implements Handle<Result | null, DispatchItemDetails, RecordedAuditEntry>
{
  /** Its key. */
  readonly id: string
  readonly #dispatch: DispatchOf
  readonly #calls: ItemCalls

  constructor(calls: ItemCalls, dispatch: DispatchOf, key: string) {
    this.#calls = calls
    this.#dispatch = dispatch
    this.id = key
  }

  /** The item as it is now, with its context while it has not ended. */
  get(): Promise<DispatchItemDetails> {
    return this.#calls.get(this.#dispatch, this.id)
  }

  /**
   * Waits until the item has been executed and returns what the process or workflow returned; null where the execution has no
   * result: it ran on a remote target, or a person completed the item.
   */
  result(options?: ResultOptions): Promise<Result | null> {
    return this.#calls.result(this.#dispatch, this.id, options) as Promise<Result | null>
  }

  /** What happened to it and by whom, oldest first. The execution has a history of its own. */
  history(): Promise<readonly RecordedAuditEntry[]> {
    return this.#calls.history(this.#dispatch, this.id)
  }

  /** Why it has not been executed yet. */
  why(): Promise<Why> {
    return this.#calls.why(this.#dispatch, this.id)
  }

  /**
   * Makes a dead letter READY again, with all its attempts. With `notDone` also an item whose start on a remote target ended
   * without an answer.
   */
  retry(by: By, options?: RetryItemOptions): Promise<void> {
    return this.#calls.retry(this.#dispatch, this.id, by, options)
  }

  /**
   * Cancels it. A READY item or a dead letter ends FAILED; the execution of a DISPATCHED item is cancelled, and the item ends with it.
   */
  cancel(by: By, options?: CancelOptions): Promise<void> {
    return this.#calls.cancel(this.#dispatch, this.id, by, options)
  }

  /**
   * Ends a dead letter COMPLETED, because its work was done by other means; or an item whose start has an unknown
   * outcome, because the target has executed it.
   */
  complete(by: By): Promise<void> {
    return this.#calls.complete(this.#dispatch, this.id, by)
  }

  /** Gives a READY item another time to start, another context, or both. */
  reschedule(by: By, change: RescheduleOptions<Input>): Promise<void> {
    return this.#calls.reschedule(this.#dispatch, this.id, by, change)
  }

  /** Makes a READY item due now, before all others; the rate applies to it too. */
  expedite(by: By): Promise<void> {
    return this.#calls.expedite(this.#dispatch, this.id, by)
  }
}

/** An item that was scheduled by this call, or was scheduled already. */
export class ScheduledItem<Input = unknown, Result = unknown> extends ItemHandle<Input, Result> implements Started {
  /** Whether this call scheduled it. False: it existed already. */
  readonly created: boolean
  /** Whether this call replaced what was scheduled before. */
  readonly replaced: boolean

  constructor(calls: ItemCalls, dispatch: DispatchOf, key: string, met: Accepted) {
    super(calls, dispatch, key)
    this.created = met === 'created'
    this.replaced = met === 'replaced'
  }
}
