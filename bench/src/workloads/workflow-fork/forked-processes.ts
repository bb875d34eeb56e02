import type { System } from '../../harness/workload.js'
import type { Body, ProcessLibrary } from '../../libraries/processes/process-library.js'
import { useBefore } from '../../libraries/processes/use-before.js'
import { createTally } from '../commands-drain/tally.js'

const BRANCHES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

/** The same fork and join as code. */
export function forkedProcesses(library: ProcessLibrary): System {
  const { name, version, role, anythingLeft } = library
  return {
    name: `${name} processes`,
    version,
    role,
    anythingLeft,
    config: { ...library.config, started: 'beforehand' },
    async prepare({ connectionString, items }) {
      await useBefore(library, connectionString, { body: bodyOf(), items })
      await library.fill(connectionString, items, 0)
    },
    async open({ connectionString, items }) {
      const tally = createTally(items)
      const host = await library.open(
        connectionString,
        bodyOf(() => tally.add(1)),
      )
      return {
        async work() {
          await host.run()
          await tally.full
        },
        close: () => host.close(),
      }
    },
  }
}

function bodyOf(done?: () => void): Body {
  return async ({ step }) => {
    await Promise.all(BRANCHES.map(step))
    done?.()
  }
}
