import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/model/index.js'
import { ensureQueue, forgetQueue, queueNameFor } from '../queue/index.js'
import { type CommandDefinition, checkCommand } from './define.js'
import type { Domains } from './domains.js'
import { type Envelope, encodeEnvelope } from './envelope.js'
import type { SendOptions } from './send-options.js'

/** Commands that a statement of another model sends together with its own changes, and the queues of their replies. */
export interface Outgoing {
  /** Checks and encodes a command; its queue is there afterwards. */
  encode(definition: CommandDefinition, data: unknown, options: SendOptions, where: string): Promise<Envelope>
  /** Creates the queue unless it exists; returns its name in PGMQ. */
  replyQueue(name: string): Promise<string>
  /** After a queue was found missing: the next call creates it again. */
  forget(names: { readonly domain?: string; readonly replyQueue?: string }): void
}

export function createOutgoing(db: Database, domains: Domains, codec: Codec): Outgoing {
  return {
    async encode(definition, data, options, where) {
      const defined = checkCommand(where, definition)
      const queue = await domains.ready(definition.domain, { buildIndex: false })
      return encodeEnvelope(defined, data, options, { codec, queue, schema: db.schema, where })
    },
    async replyQueue(name) {
      const queue = queueNameFor(db.schema, name)
      await ensureQueue(db, queue)
      return queue
    },
    forget({ domain, replyQueue }) {
      if (domain !== undefined) domains.forget(domain)
      if (replyQueue !== undefined) forgetQueue(db, queueNameFor(db.schema, replyQueue))
    },
  }
}
