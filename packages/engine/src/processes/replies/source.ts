import { type Executor, type Logger, leasesOfQueue, type Metrics, type WorkSource } from '../../kernel/model/index.js'
import { type ClaimedReply, claimReplies } from '../queries/claim-replies.js'

interface Options {
  readonly domain: string
  readonly queue: string
  readonly logger: Logger
  readonly metrics: Metrics
}

/** The replies to a domain's processes as a source of work: PGMQ's `vt` is the due time, `read_ct` the epoch. */
export function replySource(db: Executor, { domain, queue, logger, metrics }: Options): WorkSource<ClaimedReply> {
  const labels = { model: 'process-replies', domain }
  return {
    model: 'process-replies',
    types: () => [domain],
    async claim(request) {
      const { unknown, malformed, ...answer } = await claimReplies(db, { queue, domain }, request)
      for (const reply of unknown) logger.warn({ domain, ...reply }, 'a reply to no process of this domain: removed')
      if (unknown.length > 0) metrics.count('replies_unknown', labels, unknown.length)
      if (malformed > 0) {
        logger.warn({ domain, queue, messages: malformed }, 'messages that are not replies: archived')
        metrics.count('messages_not_ours', labels, malformed)
      }
      return answer
    },
    ...leasesOfQueue(db, { model: 'process-replies', queue }),
  }
}
