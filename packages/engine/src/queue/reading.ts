import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { checkOptions, durationOption, integerOption } from '../kernel/validation/options.js'
import { callQueue } from './call.js'
import { checkMessageId, MESSAGE_COLUMNS, type QueueMessage } from './message.js'

export interface ReadOptions {
  /** How long the messages are hidden from other readers, in whole seconds. Default: 30 s. */
  readonly visibilityTimeout?: Duration
  /** How many messages to read at most. Default: 1. */
  readonly limit?: number
}

export interface PollOptions extends ReadOptions {
  /** How long to wait for a message, in whole seconds. It uses a connection meanwhile. Default: 5 s. */
  readonly wait?: Duration
  /** How often to poll. Default: every 100 ms. */
  readonly interval?: Duration
}

/** PGMQ counts seconds, and messages, in an integer. */
const LARGEST = 2_147_483_647
const LONGEST = '24855d'
/** Below the time after which a statement counts as hung, which is 30 s by default. */
const LONGEST_WAIT = '20s'

// The updates behind these functions return rows in no particular order, hence `order by`.
const readStatement = {
  name: 'queue.read',
  text: `
    select${MESSAGE_COLUMNS}
    from pgmq.read($1::text, $2::integer, $3::integer)
    order by msg_id`,
}

const readWithPollStatement = {
  name: 'queue.read with poll',
  text: `
    select${MESSAGE_COLUMNS}
    from pgmq.read_with_poll($1::text, $2::integer, $3::integer, $4::integer, $5::integer)
    order by msg_id`,
}

const popStatement = {
  name: 'queue.pop',
  text: `
    select${MESSAGE_COLUMNS}
    from pgmq.pop($1::text)`,
}

const setVisibilityStatement = {
  name: 'queue.set visibility',
  text: `
    select${MESSAGE_COLUMNS}
    from pgmq.set_vt($1::text, $2::bigint, $3::integer)`,
}

/** The part of the client that reads messages. */
export function createReading(db: Database) {
  return {
    async read<Message = unknown>(name: string, options?: ReadOptions): Promise<QueueMessage<Message>[]> {
      const given = checkOptions('read', options, ['visibilityTimeout', 'limit'])
      return callQueue<QueueMessage<Message>>(db, name, readStatement, ...readParams('read', given))
    },

    async readWithPoll<Message = unknown>(name: string, options?: PollOptions): Promise<QueueMessage<Message>[]> {
      const where = 'readWithPoll'
      const given = checkOptions(where, options, ['visibilityTimeout', 'limit', 'wait', 'interval'])
      const wait = durationOption(where, 'wait', given.wait, { min: '1s', max: LONGEST_WAIT, default: '5s' })
      const interval = durationOption(where, 'interval', given.interval, { min: 1, max: LONGEST_WAIT, default: 100 })
      const params = [...readParams(where, given), toSeconds(wait), interval]
      return callQueue<QueueMessage<Message>>(db, name, readWithPollStatement, ...params)
    },

    async pop<Message = unknown>(name: string): Promise<QueueMessage<Message> | undefined> {
      const [message] = await callQueue<QueueMessage<Message>>(db, name, popStatement)
      return message
    },

    async setVisibilityTimeout<Message = unknown>(
      name: string,
      messageId: string,
      timeout: Duration,
    ): Promise<QueueMessage<Message> | undefined> {
      const where = 'setVisibilityTimeout'
      const hidden = toSeconds(durationOption(where, 'timeout', timeout, { max: LONGEST }))
      const params = [checkMessageId(where, messageId), hidden]
      const [message] = await callQueue<QueueMessage<Message>>(db, name, setVisibilityStatement, ...params)
      return message
    },
  }
}

function readParams(where: string, given: Partial<Record<'visibilityTimeout' | 'limit', unknown>>): number[] {
  const hidden = durationOption(where, 'visibilityTimeout', given.visibilityTimeout, { max: LONGEST, default: '30s' })
  return [toSeconds(hidden), integerOption(where, 'limit', given.limit, { min: 1, max: LARGEST, default: 1 })]
}

/** Upwards: a message that is visible too early is handled twice. */
function toSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1000)
}
