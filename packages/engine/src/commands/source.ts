import {
  columnsOf,
  type Executor,
  type Logger,
  leasesOfQueue,
  lossesOf,
  type Metrics,
  type WorkSource,
} from '../kernel/model/index.js'
import { type ReceivedCommand, receiveCommands } from './queries/receive-commands.js'

/** The commands of one domain as a source of work: PGMQ's `vt` is the due time, `read_ct` the epoch. */
export function commandSource(
  db: Executor,
  {
    domain,
    queue,
    types,
    metrics,
    logger,
  }: { domain: string; queue: string; types: () => readonly string[]; metrics: Metrics; logger: Logger },
): WorkSource<ReceivedCommand> {
  return {
    model: 'commands',
    types,
    async claim(request) {
      const { notOurs, ...answer } = await receiveCommands(db, queue, domain, request)
      if (notOurs > 0) {
        metrics.count('messages_not_ours', { model: 'commands', domain }, notOurs)
        logger.warn(
          { model: 'commands', domain, queue, messages: notOurs },
          'archived messages that are not valid commands',
        )
      }
      return answer
    },
    ...leasesOfQueue(db, { model: 'commands', queue, types }),
    losses: lossesOf(db, {
      source: `commands:${queue}`,
      async expire(leases) {
        await db.run(expireStatement, [queue, domain, ...columnsOf(leases)])
      },
    }),
  }
}

const expireStatement = { name: 'commands.expire', text: 'select holdfast.expire_commands($1, $2, $3, $4)' }
