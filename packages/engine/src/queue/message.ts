import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/** A message as it is in its queue. `Message` is what JSON makes of it: a `Date` that was sent is an ISO text here. */
export interface QueueMessage<Message = unknown> {
  /** A text, because PGMQ counts messages with a bigint. */
  readonly messageId: string
  /** How often it was read; with the id it identifies one read. */
  readonly readCount: number
  readonly enqueuedAt: Date
  /** When it can be read, or read again. */
  readonly visibleAt: Date
  readonly message: Message
  readonly headers: QueueHeaders | null
}

export type QueueHeaders = Readonly<Record<string, unknown>>

/** What of `pgmq.message_record` all versions since 1.5 have, by the names of `QueueMessage`. */
export const MESSAGE_COLUMNS = `
      msg_id::text as "messageId",
      read_ct as "readCount",
      enqueued_at as "enqueuedAt",
      vt as "visibleAt",
      message,
      headers`

const LARGEST = 9_223_372_036_854_775_807n

export function checkMessageId(where: string, value: unknown): string {
  if (typeof value === 'string' && /^\d{1,19}$/.test(value) && BigInt(value) <= LARGEST) return value
  throw invalidOption(where, 'messageId', `must be the id of a message, such as '42', not ${describe(value)}`)
}
