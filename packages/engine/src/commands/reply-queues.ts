import { type By, checkBy, type Database } from '../kernel/model/index.js'
import { queueNameFor } from '../queue/index.js'
import type { Domains } from './domains.js'

/**
 * Which queues a foreign client's message may name in `reply_to`. Without this list, every client that may write into the
 * queue of one domain could have replies put into the queues of all others. The `replyTo` of `hf.send` and `holdfast.send` is
 * not restricted: their callers have the rights of the installation.
 */
export interface ReplyQueues {
  /** Lets foreign clients of a domain have their replies sent to this queue, besides `<domain>__replies`. */
  allowReplies(domain: string, queue: string, by: By): Promise<void>
  /** The opposite. Commands that were received before keep their reply queue. */
  disallowReplies(domain: string, queue: string, by: By): Promise<void>
  /** The queues that were allowed, by domain and name. */
  replyQueues(domain: string): Promise<string[]>
}

export function createReplyQueues(db: Database, domains: Domains): ReplyQueues {
  async function change(operation: 'allowReplies' | 'disallowReplies', domain: string, queue: string, by: By) {
    const { actor, reason } = checkBy(operation, by)
    domains.queueOf(domain)
    const statement = operation === 'allowReplies' ? allowStatement : disallowStatement
    await db.run(statement, [domain, queueNameFor(db.schema, queue), actor, reason])
  }

  return {
    allowReplies: (domain, queue, by) => change('allowReplies', domain, queue, by),
    disallowReplies: (domain, queue, by) => change('disallowReplies', domain, queue, by),
    async replyQueues(domain) {
      const rows = await db.run<{ queue: string }>(listStatement, [domain])
      return rows.map(({ queue }) => queue)
    },
  }
}

const allowStatement = {
  name: 'commands.allow-replies',
  text: `
    with allowed as (
      insert into holdfast.reply_queue (domain, queue) values ($1, $2) on conflict do nothing returning queue
    )
    insert into holdfast.audit (at, model, event, subject_name, actor, reason, after)
    select holdfast.now(), 'commands', 'REPLY_QUEUE_ALLOWED', $1, $3, $4, pg_catalog.jsonb_build_object('queue', queue) from allowed`,
}

const disallowStatement = {
  name: 'commands.disallow-replies',
  text: `
    with gone as (
      delete from holdfast.reply_queue where domain = $1 and queue = $2 returning queue
    )
    insert into holdfast.audit (at, model, event, subject_name, actor, reason, before)
    select holdfast.now(), 'commands', 'REPLY_QUEUE_DISALLOWED', $1, $3, $4, pg_catalog.jsonb_build_object('queue', queue) from gone`,
}

const listStatement = {
  name: 'commands.list-reply-queues',
  text: 'select queue from holdfast.reply_queue where domain = $1 order by queue',
}
