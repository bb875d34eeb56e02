import { closeBoss, fillBoss, openBoss, QUEUE, version } from '../../libraries/pg-boss.js'
import type { WaitingLibrary } from './latency-system.js'

/** With its notifications, which are off unless asked for: it would poll every two seconds. */
export const pgBossLatency: WaitingLibrary = {
  name: 'pg-boss work',
  version,
  role: 'peer',
  config: { notify: true },
  install: (connectionString) => fillBoss(connectionString, 0),
  async open(connectionString, started) {
    const boss = await openBoss(connectionString)
    await boss.work(QUEUE, { batchSize: 1 }, async () => started())
    return { send: (payload) => boss.send(QUEUE, { ...payload }), close: () => closeBoss(boss) }
  },
}
