import { createRegistry, duplicate, type Registry } from '../kernel/model/index.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { type DefinedProcess, definedProcess } from './define.js'
import { type DefinedManager, definedManager } from './managers/define.js'
import { type Handlers, handlersOf } from './managers/handlers.js'

export type ProcessRegistry = Registry<DefinedProcess>

interface RegisteredManager {
  readonly definition: DefinedManager
  readonly handlers: Handlers
}

export type ManagerRegistry = Registry<RegisteredManager>

/** The processes and managers of this program. They share their names: both are started and found by them. */
export interface ProcessRegistries {
  readonly processes: ProcessRegistry
  readonly managers: ManagerRegistry
  readonly add: (definition: unknown) => void
}

export function createProcessRegistries(): ProcessRegistries {
  const processes: ProcessRegistry = createRegistry('processes', { named: (definition) => definition, same: Object.is })
  const managers: ManagerRegistry = createRegistry('processes', {
    named: ({ definition }) => definition,
    same: (known, added) => known.definition === added.definition,
  })
  return {
    processes,
    managers,
    add(definition) {
      const manager = definedManager(definition)
      if (manager) {
        if (processes.find(manager.name)) throw duplicate('processes', manager)
        return managers.add({ definition: manager, handlers: handlersOf(manager) })
      }
      const process = definedProcess(definition)
      if (!process) {
        throw invalidOption('register', 'definition', `must be made with defineProcess, not ${describe(definition)}`)
      }
      if (managers.find(process.name)) throw duplicate('processes', process)
      processes.add(process)
    },
  }
}
