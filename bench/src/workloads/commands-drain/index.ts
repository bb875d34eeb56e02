import type { Workload } from '../../harness/workload.js'
import { drainSystem } from './drain-system.js'
import { drainingLibraries } from './libraries.js'

/** Commands that were sent beforehand are run and finished. The loops by hand get one process: they show the ceiling. */
export const commandsDrain: Workload = {
  name: 'commands-drain',
  unit: 'commands/s',
  measures: 'drain of no-op commands that are waiting: ours with status, result and audit, theirs without a history',
  items: 20_000,
  systems(options) {
    const libraries = drainingLibraries(options)
    return [
      ...libraries.map((library) => drainSystem(library, 1, options)),
      ...libraries.filter(({ role }) => role !== 'ceiling').map((library) => drainSystem(library, 2, options)),
    ]
  },
}
