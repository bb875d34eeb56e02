import { setTimeout as sleep } from 'node:timers/promises'
import { withClient } from '../../harness/with-client.js'
import { type Body, FIRST_OF_BEFORE, type ProcessLibrary } from './process-library.js'
import { untilWaiting } from './until-waiting.js'

/** As many as will be measured, but no more than these: enough for plans, and for Node to have compiled its code. */
const MOST = 1_000
const ASK_EVERY_MS = 50

interface Use {
  readonly body: Body
  /** How many will be measured. */
  readonly items: number
  /** They wait for a response on their way. */
  readonly waits?: boolean
}

/**
 * Installs a library and lets it run a number of processes to their end. Statements planned on empty tables scan them
 * for ever: without this, a library that prepares its statements would be measured as nobody would meet it.
 */
export async function useBefore(library: ProcessLibrary, connectionString: string, use: Use): Promise<void> {
  const processes = Math.min(use.items, MOST)
  await library.install(connectionString)
  await library.fill(connectionString, processes, FIRST_OF_BEFORE)
  const host = await library.open(connectionString, use.body)
  await host.run()
  if (use.waits) {
    await untilWaiting(connectionString, library.waiting, processes)
    await host.learnIds?.()
    await host.respondAll(Array.from({ length: processes }, (_, place) => FIRST_OF_BEFORE + place))
  }
  await withClient(connectionString, async (client) => {
    for (;;) {
      const { rows } = await client.query<[boolean]>({ text: library.anythingLeft, rowMode: 'array' })
      if (rows[0]?.[0] === false) return
      await sleep(ASK_EVERY_MS)
    }
  })
  await host.close()
}
