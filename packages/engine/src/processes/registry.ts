import { createRegistry, duplicate, type Registry } from '../kernel/model/registry.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { ProcessDefinition } from './define.js'
import { isManager, type ManagerDefinition } from './managers/define.js'
import { type Handlers, handlersOf } from './managers/handlers.js'

export type ProcessRegistry = Registry<ProcessDefinition>

interface RegisteredManager {
  readonly definition: ManagerDefinition
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
      if (isManager(definition)) {
        if (processes.find(definition.name)) throw duplicate('processes', definition)
        return managers.add({ definition, handlers: handlersOf(definition) })
      }
      if (!isProcess(definition)) {
        throw invalidOption('register', 'definition', `must be made with defineProcess, not ${describe(definition)}`)
      }
      if (managers.find(definition.name)) throw duplicate('processes', definition)
      processes.add(definition)
    },
  }
}

function isProcess(definition: unknown): definition is ProcessDefinition {
  return (
    typeof definition === 'object' && definition !== null && typeof Reflect.get(definition, 'execute') === 'function'
  )
}
