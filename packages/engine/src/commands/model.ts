import type { InstalledModel, Runtime } from '../kernel/model/index.js'
import { createBatches } from './batches.js'
import { createCommandBulk } from './bulk.js'
import { createCommandCalls } from './calls.js'
import { createCommandClient } from './client.js'
import { createCommands } from './commands.js'
import { createDomains } from './domains.js'
import { createCommandOperations } from './operations.js'
import { createOutgoing } from './outgoing.js'
import { createHandlerRegistry } from './registry.js'
import { commandChores } from './sweep.js'
import { commandWork } from './worker.js'

/** Commands, as an installation has them. */
export function commandModel(runtime: Runtime) {
  const { db, codec, reports, results } = runtime
  const registry = createHandlerRegistry()
  const queues = createDomains(db)
  const operations = createCommandOperations(db, codec, registry, reports)
  const calls = createCommandCalls(db, codec, { operations, results })
  const client = createCommandClient(db, queues, { ...runtime, calls })
  const model: InstalledModel = {
    name: 'commands',
    chores: commandChores(reports),
    domains: registry.domains,
    has(kind, name) {
      if (kind === 'domain') return registry.domains().includes(name)
      if (kind === 'definition') return registry.find(name) !== undefined
      return registry.all().some(({ definition }) => definition.type === name)
    },
    work: (worker) => commandWork(runtime, { registry, queues }, worker),
    close: client.close,
  }
  return {
    model,
    registry,
    client,
    outgoing: createOutgoing(db, queues, codec),
    namespace: createCommands(db, codec, queues),
    batches: createBatches(db, client, queues, codec),
    bulk: createCommandBulk(db, { codec, registry, reports }),
  }
}

export type OpenCommands = ReturnType<typeof commandModel>
