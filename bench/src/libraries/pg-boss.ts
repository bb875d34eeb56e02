import { PgBoss } from 'pg-boss'
import { versionOf } from '../harness/version.js'
import { chunksOf } from './payload.js'

export const version = versionOf('pg-boss')
export const QUEUE = 'noop'
/** Its states are ordered: created, retry, active, completed, … */
export const anythingLeft = `select exists (select from pgboss.job where name = '${QUEUE}' and state < 'completed')`

/** Without its housekeeping, which would run in the middle of one measurement and not of another. */
export async function openBoss(connectionString: string): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString, max: 20, supervise: false, schedule: false, useListenNotify: true })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  return boss
}

export function closeBoss(boss: PgBoss): Promise<void> {
  return boss.stop({ graceful: false })
}

/** The installation and its waiting jobs. */
export async function fillBoss(connectionString: string, items: number, startAfter?: Date): Promise<void> {
  const boss = await openBoss(connectionString)
  try {
    if ((await boss.getQueue(QUEUE)) === null) await boss.createQueue(QUEUE, { notify: true })
    for (const chunk of chunksOf(items)) {
      await boss.insert(
        QUEUE,
        chunk.map((data) => ({ data, ...(startAfter ? { startAfter } : {}) })),
      )
    }
  } finally {
    await closeBoss(boss)
  }
}
