import type { Executor } from '../kernel/database/executor.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { lossesOf } from '../kernel/work/losses.js'
import type { LeaseRef, WorkSource } from '../kernel/work/source.js'
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
          'archived messages that are no commands which can be run',
        )
      }
      return answer
    },
    async extend(leases, leaseMs) {
      const [row] = await db.run<{ extended: string[]; lost: string[] }>(extendStatement, [
        queue,
        ...columns(leases),
        leaseMs,
      ])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, [queue, ...columns(leases)])
    },
    losses: lossesOf(db, {
      source: `commands:${queue}`,
      async expire(leases) {
        await db.run(expireStatement, [queue, domain, ...columns(leases)])
      },
    }),
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [queue, types()])
      return row?.seconds ?? null
    },
  }
}

const columns = (leases: readonly LeaseRef[]) => [leases.map(({ id }) => id), leases.map(({ epoch }) => epoch)]

const extendStatement = { name: 'commands.extend', text: 'select * from holdfast.extend_commands($1, $2, $3, $4)' }
const releaseStatement = { name: 'commands.release', text: 'select holdfast.release_commands($1, $2, $3)' }
const expireStatement = { name: 'commands.expire', text: 'select holdfast.expire_commands($1, $2, $3, $4)' }
const oldestStatement = {
  name: 'commands.oldest-due',
  text: 'select holdfast.oldest_command_seconds($1, $2::text[]) as seconds',
}
