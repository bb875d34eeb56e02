import { setTimeout as sleep } from 'node:timers/promises'
import { withClient } from '../../harness/with-client.js'
import { type Body, FIRST_OF_BEFORE, type ProcessLibrary } from './process-library.js'
import { untilWaiting } from './until-waiting.js'

const PROCESSES = 150
const ASK_EVERY_MS = 50

interface Use {
  readonly body: Body
  /** They wait for a response on their way. */
  readonly waits?: boolean
}

/**
 * Installs a library and lets it run a number of processes to their end. Statements planned on empty tables scan them
 * for ever: without this, a library that prepares its statements would be measured as nobody would meet it.
 */
export async function useBefore(library: ProcessLibrary, connectionString: string, use: Use): Promise<void> {
  await library.install(connectionString)
  await library.fill(connectionString, PROCESSES, FIRST_OF_BEFORE)
  const host = await library.open(connectionString, use.body)
  await host.run()
  if (use.waits) {
    await untilWaiting(connectionString, library.waiting, PROCESSES)
    await host.learnIds?.()
    await host.respondAll(Array.from({ length: PROCESSES }, (_, place) => FIRST_OF_BEFORE + place))
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
