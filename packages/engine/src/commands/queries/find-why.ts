import { type Executor, type Pause, presenceIn, type Why } from '../../kernel/model/index.js'
import { whyOf } from '../why.js'
import type { CommandRecord } from './find-commands.js'

interface Row {
  readonly subject: string | null
  readonly pausedAt: Date | null
  readonly actor: string | null
  readonly reason: string | null
  readonly receivedBy: string | null
  readonly now: Date
}

/** Why a command does not continue: looks up what its row does not say. */
export async function findWhy(executor: Executor, command: CommandRecord): Promise<Why> {
  const { id, domain, type } = command
  const subjects = [`domain:${domain}`, `definition:${domain}/${type}`, `handler:${type}`]
  const [[row], hasWorker] = await Promise.all([
    executor.run<Row & object>(statement, [subjects, id, domain]),
    presenceIn(executor, 'commands')(`${domain}/${type}`),
  ])
  return whyOf(command, {
    pause: row && pauseOf(row),
    hasWorker,
    receivedBy: row?.receivedBy ?? null,
    now: row?.now ?? new Date(),
  })
}

function pauseOf({ subject, pausedAt, actor, reason }: Row): Pause | undefined {
  return subject === null || pausedAt === null || actor === null || reason === null
    ? undefined
    : { subject, pausedAt, actor, reason }
}

const statement = {
  name: 'commands.find-why',
  text: `
    select pause.subject, pause.paused_at as "pausedAt", pause.actor, pause.reason, received.worker as "receivedBy", holdfast.now() as now
    from (select) as one
    left join lateral (
      select * from holdfast.pause where subject = any ($1) order by paused_at, subject limit 1
    ) as pause on true
    left join lateral (
      select detail ->> 'worker'::text as worker
      from holdfast.audit
      where subject_id = $2 and event = 'RECEIVED' and detail ->> 'domain'::text = $3
      order by seq desc
      limit 1
    ) as received on true`,
}
