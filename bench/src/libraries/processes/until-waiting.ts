import { setTimeout as sleep } from 'node:timers/promises'
import { withClient } from '../../harness/with-client.js'

const ASK_EVERY_MS = 100
const GIVE_UP_AFTER_MS = 60_000

/** Resolves when so many processes wait; gives up when none has come for a minute. `waiting` is SQL that counts them. */
export async function untilWaiting(connectionString: string, waiting: string, processes: number): Promise<void> {
  await withClient(connectionString, async (client) => {
    let most = -1
    let changedAt = performance.now()
    for (;;) {
      const asked = performance.now()
      const { rows } = await client.query<[number]>({ text: waiting, rowMode: 'array' })
      const count = rows[0]?.[0] ?? 0
      if (count >= processes) return
      if (count > most) {
        most = count
        changedAt = performance.now()
      } else if (performance.now() - changedAt > GIVE_UP_AFTER_MS) {
        throw new Error(`only ${count} of ${processes} processes have come to their wait`)
      }
      // Counting a million takes a while, and the workers that bring them there need the machine.
      await sleep(Math.max(ASK_EVERY_MS, 10 * (performance.now() - asked)))
    }
  })
}
