import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Queryable, Statement } from '../kernel/database/executor.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { checkOptions } from '../kernel/validation/options.js'
import { ensureQueue, forgetQueue } from './ensure-queue.js'
import type { QueueHeaders } from './message.js'
import { queueNameFor } from './names.js'
import { explainQueueError } from './queue-errors.js'
import { sendBatchRequest, sendRequest } from './send-request.js'

export interface SendOptions {
  /** Hides the message for a while, or until a moment. */
  readonly delay?: Duration | Date
  readonly headers?: QueueHeaders
  /** Your own transaction: the message exists once it commits, and not if it rolls back. */
  readonly transaction?: Queryable
}

export interface SendBatchOptions extends Omit<SendOptions, 'headers'> {
  /** One per message, in their order; null for none. */
  readonly headers?: readonly (QueueHeaders | null)[]
}

const OPTIONS = ['delay', 'headers', 'transaction'] as const satisfies readonly (keyof SendOptions)[]

/** The part of the client that sends. */
export function createSending(db: Database, codec: Codec) {
  return {
    async send(name: string, message: unknown, options: SendOptions = {}): Promise<string> {
      const { delay, headers } = checkOptions('send', options, OPTIONS)
      const queue = queueNameFor(db.schema, name)
      const request = sendRequest(codec, message, { queue, delay, headers })
      const [messageId] = await sendTo(db, queue, sendStatement, request, options.transaction)
      if (messageId === undefined) throw new Error(`PGMQ gave the message in ${queue} no id`)
      return messageId
    },

    async sendBatch(name: string, messages: readonly unknown[], options: SendBatchOptions = {}): Promise<string[]> {
      const { delay, headers } = checkOptions('sendBatch', options, OPTIONS)
      const queue = queueNameFor(db.schema, name)
      const request = sendBatchRequest(codec, messages, { queue, delay, headers })
      return sendTo(db, queue, sendBatchStatement, request, options.transaction)
    },
  }
}

/**
 * The queue is made first where it is missing, and never inside a caller's transaction, whose locks would stay until the
 * commit. A queue that was dropped since is made again, except for a caller's transaction, which has failed by then.
 */
async function sendTo(
  db: Database,
  queue: string,
  statement: Statement,
  request: string,
  caller: Queryable | undefined,
): Promise<string[]> {
  const executor = caller === undefined ? db : db.inside(caller)
  for (let attempt = 1; ; attempt += 1) {
    await ensureQueue(db, queue)
    try {
      const rows = await executor.run<{ messageId: string }>(statement, [request])
      return rows.map(({ messageId }) => messageId)
    } catch (error) {
      const explained = explainQueueError(error, queue)
      if (!isMissing(explained)) throw explained
      forgetQueue(db, queue)
      if (caller !== undefined || attempt > 1) throw explained
    }
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'HF_QUEUE_NOT_FOUND'
}

// `materialized`, because a subquery would be flattened and the JSON parsed again wherever a part of it is used. Delays
// count from PGMQ's own clock, which is the one its `read` goes by.
const VISIBLE_AT = `
      coalesce(
        pg_catalog.to_timestamp((body ->> 'at'::text)::float8 / 1000::float8),
        pg_catalog.clock_timestamp() + (body ->> 'after'::text)::float8 * interval '1 millisecond'
      )`

const sendStatement: Statement = {
  name: 'queue.send',
  text: `
    with request as materialized (select $1::text::jsonb as body)
    select sent.id::text as "messageId"
    from request, pgmq.send(
      body ->> 'queue'::text,
      body -> 'message'::text,
      body -> 'headers'::text,${VISIBLE_AT}
    ) as sent (id)`,
}

const sendBatchStatement: Statement = {
  name: 'queue.send batch',
  text: `
    with request as materialized (select $1::text::jsonb as body)
    select sent.id::text as "messageId"
    from request, pgmq.send_batch(
      body ->> 'queue'::text,
      array(
        select message
        from pg_catalog.jsonb_array_elements(body -> 'messages'::text) with ordinality as given (message, position)
        order by position
      ),
      case when body -> 'headers'::text is not null then array(
        select nullif(headers, 'null')
        from pg_catalog.jsonb_array_elements(body -> 'headers'::text) with ordinality as given (headers, position)
        order by position
      ) end,${VISIBLE_AT}
    ) as sent (id)`,
}
