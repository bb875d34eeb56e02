import { withClient } from '../../harness/with-client.js'
import type { Run, System, Task } from '../../harness/workload.js'
import type { Body, ProcessLibrary } from '../../libraries/processes/process-library.js'
import { untilWaiting } from '../../libraries/processes/until-waiting.js'
import { createTally } from '../commands-drain/tally.js'

/** How many processes are new, while the others wait. */
const NEW = 1_000
const FEW = 1_000
const MEGABYTE = 1_048_576

/** The cases that new work must not feel. `items` is the size of the big one. */
const cases = [
  { name: 'few', of: (items: number) => Math.min(FEW, items) },
  { name: 'all', of: (items: number) => items },
]

/** One system per case, both compared with the first. */
export function parkedSystems(library: ProcessLibrary): System[] {
  const { name, version, role, config } = library
  return cases.map((parked, place) => ({
    name,
    version,
    role,
    config: { ...config, parked: parked.name },
    group: name,
    baseline: place === 0,
    // Nobody responds to those that wait; the new ones are counted.
    anythingLeft: 'select false',
    prepare: (task) => park(library, task.connectionString, parked.of(task.items)),
    open: (task) => openRun(library, task, parked.of(task.items)),
  }))
}

/** The new ones pass by; all others wait. */
function bodyOf(parked: number, passed: () => void): Body {
  return async ({ step, response }, place) => {
    await step('before')
    if (place < parked) await response()
    await step('after')
    passed()
  }
}

/** In a process of its own: what it takes to bring a million there is not the memory of a worker that finds them there. */
async function park(library: ProcessLibrary, connectionString: string, parked: number): Promise<void> {
  await library.install(connectionString)
  await library.fill(connectionString, parked, 0)
  const host = await library.open(
    connectionString,
    bodyOf(parked, () => undefined),
  )
  await host.run()
  await untilWaiting(connectionString, library.waiting, parked)
  await host.close()
}

async function openRun(library: ProcessLibrary, { connectionString }: Task, parked: number): Promise<Run> {
  const bytes = await databaseBytes(connectionString)
  const tally = createTally(NEW)
  const host = await library.open(
    connectionString,
    bodyOf(parked, () => tally.add(1)),
  )
  await library.fill(connectionString, NEW, parked)
  let seconds = 0
  return {
    async work() {
      const began = performance.now()
      await host.run()
      await tally.full
      seconds = (performance.now() - began) / 1000
    },
    figures: () => ({
      value: NEW / seconds,
      details: { 'bytes each': bytes / parked, 'heap MB': process.memoryUsage().heapUsed / MEGABYTE },
      costItems: NEW,
    }),
    close: () => host.close(),
  }
}

/** Tables with their indexes, without those of PostgreSQL itself. */
function databaseBytes(connectionString: string): Promise<number> {
  return withClient(connectionString, async (client) => {
    const { rows } = await client.query<[number]>({
      text: `
        select coalesce(sum(pg_total_relation_size(relation.oid)), 0)::float8
        from pg_class relation
        join pg_namespace space on space.oid = relation.relnamespace
        where relation.relkind = 'r' and space.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')`,
      rowMode: 'array',
    })
    return rows[0]?.[0] ?? 0
  })
}
