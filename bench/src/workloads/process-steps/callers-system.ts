import type { Run, System, Task } from '../../harness/workload.js'
import { atOnce } from '../../libraries/processes/at-once.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { useBefore } from '../../libraries/processes/use-before.js'

/** A worker, and callers who each start a process, let it come to its end and start the next. The starts are measured too. */
export function callersSystem(library: ProcessLibrary, callers: number): System {
  const { name, version, role, anythingLeft } = library
  return {
    name,
    version,
    role,
    anythingLeft,
    config: { ...library.config, started: `by ${callers} callers` },
    prepare: ({ connectionString, items }) => useBefore(library, connectionString, { body: fiveSteps({}), items }),
    open: (task) => openRun(library, task, callers),
  }
}

async function openRun(library: ProcessLibrary, { connectionString, items }: Task, callers: number): Promise<Run> {
  const waiting = new Map<number, () => void>()
  const host = await library.open(connectionString, async (tools, place) => {
    await fiveSteps({})(tools, place)
    waiting.get(place)?.()
    waiting.delete(place)
  })
  await host.run()

  /** The end of its code, not of its record: to ask the database for every one would be work that nobody else does. */
  async function runOne(place: number): Promise<void> {
    const done = new Promise<void>((resolve) => waiting.set(place, resolve))
    await host.start(place)
    await done
  }

  return { work: () => atOnce(callers, items, runOne), close: () => host.close() }
}
