import { createCodec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { checkOptions, integerOption } from '../kernel/validation/options.js'
import { createManaging, type QueueDescription, type QueueMetrics } from './managing.js'
import type { QueueMessage } from './message.js'
import { createReading, type PollOptions, type ReadOptions } from './reading.js'
import { createRemoving } from './removing.js'
import { createSending, type SendBatchOptions, type SendOptions } from './sending.js'

/**
 * PGMQ's functions, typed; each call is one statement. Names are those of this installation; `queueName` returns how
 * foreign clients call a queue.
 */
export interface QueueClient {
  queueName(name: string): string
  /** Creates the queue unless it exists. Sending does so too. */
  create(name: string): Promise<void>
  /** Drops the queue with its messages and its archive. False: there was none. */
  drop(name: string): Promise<boolean>
  exists(name: string): Promise<boolean>
  /** The queues of this installation; in the default schema also those that foreign clients have made. */
  list(): Promise<QueueDescription[]>
  /** Returns the message's id. */
  send(name: string, message: unknown, options?: SendOptions): Promise<string>
  /** All or none; returns their ids in order. */
  sendBatch(name: string, messages: readonly unknown[], options?: SendBatchOptions): Promise<string[]>
  /** Reads messages and hides them for the visibility timeout. */
  read<Message = unknown>(name: string, options?: ReadOptions): Promise<QueueMessage<Message>[]>
  /** Like `read`, but waits in the database until there is a message. */
  readWithPoll<Message = unknown>(name: string, options?: PollOptions): Promise<QueueMessage<Message>[]>
  /** Reads a message and deletes it at once: it is lost if its reader dies. */
  pop<Message = unknown>(name: string): Promise<QueueMessage<Message> | undefined>
  /** For one id whether it existed; for many those that existed. */
  delete(name: string, messageId: string): Promise<boolean>
  delete(name: string, messageIds: readonly string[]): Promise<string[]>
  /** Moves messages to the queue's archive; returns the same as `delete`. */
  archive(name: string, messageId: string): Promise<boolean>
  archive(name: string, messageIds: readonly string[]): Promise<string[]>
  /** Hides a message for this long from now on; undefined if it does not exist. */
  setVisibilityTimeout<Message = unknown>(
    name: string,
    messageId: string,
    timeout: Duration,
  ): Promise<QueueMessage<Message> | undefined>
  /** Deletes all messages and returns how many there were. */
  purge(name: string): Promise<number>
  metrics(name: string): Promise<QueueMetrics>
}

export interface QueueClientOptions {
  /** The largest size of one message as JSON. Default: 1 MB. */
  readonly maxPayloadBytes?: number
}

/**
 * A client for the queues of this installation.
 *
 * @example
 * const queues = createQueueClient(db)
 * await queues.send('orders', { id: 7 }, { delay: '10s', transaction: tx })
 * for (const { messageId, message } of await queues.read<Order>('orders', { limit: 10 })) {
 *   await handle(message)
 *   await queues.delete('orders', messageId)
 * }
 */
export function createQueueClient(db: Database, options: QueueClientOptions = {}): QueueClient {
  const where = 'createQueueClient'
  const given = checkOptions(where, options, ['maxPayloadBytes'])
  const maxBytes = integerOption(where, 'maxPayloadBytes', given.maxPayloadBytes, { min: 1, default: 1_048_576 })
  return {
    ...createManaging(db),
    ...createSending(db, createCodec({ maxBytes })),
    ...createReading(db),
    ...createRemoving(db),
  }
}
