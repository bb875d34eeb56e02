import type { OpenCommands } from '../commands/model.js'
import { coded, type InstalledModel, type Runtime } from '../kernel/model/index.js'
import { createProcessBulk } from './bulk.js'
import { createProcessCalls } from './calls.js'
import { createProcessClient } from './client.js'
import { createProcessEngine } from './engine.js'
import { createStarterExecutions } from './immediate.js'
import { createManagerClient } from './managers/client.js'
import { createProcessOperations } from './operations.js'
import { createProcesses } from './processes.js'
import { processWork } from './worker.js'

/** Processes and managers, as an installation has them. */
export function processModel(runtime: Runtime, { client: commands, outgoing }: OpenCommands) {
  const { db, results } = runtime
  const engine = createProcessEngine(db, { ...runtime, commands, outgoing })
  const immediate = createStarterExecutions(db, {
    ...runtime,
    ...engine,
    isAllowed: (definition) =>
      runtime.immediate !== false &&
      definition.immediate &&
      (runtime.immediate === 'unregistered' || engine.registry.find(definition.name) === definition),
    partsFor: (definition, stop) => engine.partsFor(definition, { inStarter: true, stop }),
  })
  const operations = createProcessOperations(db, { ...runtime, registry: engine.registry })
  const calls = coded(createProcessCalls(db, engine, operations, results), db.schema, 'hf.process')
  const client = createProcessClient(db, { ...runtime, immediate, calls })
  const managers = createManagerClient({ ...runtime, outgoing, calls })
  const registries = [engine.registry, engine.managers]
  const domains = () => registries.flatMap((registry) => registry.domains())
  const model: InstalledModel = {
    name: 'processes',
    chores: {},
    domains,
    has(kind, name) {
      if (kind === 'domain') return domains().includes(name)
      return kind === 'definition' && registries.some((registry) => registry.find(name) !== undefined)
    },
    work: (worker) => processWork(runtime, { engine, outgoing }, worker),
    drain: immediate.drain,
    async close() {
      await immediate.close()
      await Promise.all([client.close(), managers.close()])
      await engine.close()
    },
  }
  return {
    model,
    engine,
    client,
    managers,
    calls,
    operations,
    namespace: createProcesses(db, engine),
    bulk: createProcessBulk(db, { ...runtime, registry: engine.registry }),
  }
}

export type OpenProcesses = ReturnType<typeof processModel>
