import { closeBoss, fillBoss, openBoss, QUEUE, version } from '../../libraries/pg-boss.js'
import type { SendingLibrary } from './sender.js'

/** One row per job, and a NOTIFY as its queue asks for it (without, its workers would poll). */
export const pgBossSend: SendingLibrary = {
  name: 'pg-boss',
  version,
  role: 'peer',
  config: {},
  install: (connectionString) => fillBoss(connectionString, 0),
  async open(connectionString) {
    const boss = await openBoss(connectionString)
    return {
      one: (payload) => boss.send(QUEUE, { ...payload }),
      bulk: (payloads) =>
        boss.insert(
          QUEUE,
          payloads.map((data) => ({ data })),
        ),
      close: () => closeBoss(boss),
    }
  },
}
