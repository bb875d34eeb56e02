import type { Database } from '../kernel/database/database.js'
import { parseId } from '../kernel/ids/id.js'
import { checkOptions, choiceOption, dateOption, integerOption } from '../kernel/validation/options.js'
import type { WorkflowEngine } from './engine.js'
import type { WorkflowHooks } from './hooks.js'
import { createWorkflowMaintenance, type WorkflowMaintenance } from './maintenance.js'
import { instanceNotFound } from './not-found.js'
import {
  findDecisions,
  findWaitingDecisions,
  type RecordedDecision,
  type WaitingDecision,
} from './queries/find-decisions.js'
import { findInstances, type InstanceFilter, type WorkflowRecord } from './queries/find-instances.js'
import { instanceStatuses } from './states.js'

export type WorkflowListFilter = Partial<Omit<InstanceFilter, 'id'>>

/** Declared saga graphs: their handlers and hooks, lists of instances, and what people have to do. */
export interface Workflows extends WorkflowMaintenance {
  /** Takes a handler away: its steps are left to workers that have it. Answers whether it was there. */
  removeHandler(name: string): boolean
  /** Adds hooks (W-15); answers how to remove them. */
  use(hooks: WorkflowHooks): () => void
  /** Those that fit, newest first; 100 unless `limit` says otherwise. */
  list(filter?: WorkflowListFilter): Promise<WorkflowRecord[]>
  /** What people have to decide, and have decided. */
  readonly decisions: {
    waiting(filter?: { readonly workflow?: string; readonly limit?: number }): Promise<WaitingDecision[]>
    /** What was decided in one instance, oldest first. */
    of(id: string): Promise<RecordedDecision[]>
  }
}

export function createWorkflows(db: Database, engine: WorkflowEngine): Workflows {
  const { codec, handlers, hooks } = engine
  return {
    ...createWorkflowMaintenance(db),
    removeHandler: (name) => handlers.remove(name),
    use: (added) => hooks.add(added),
    async list(filter = {}) {
      return findInstances(db, codec, checkFilter(filter))
    },
    decisions: {
      async waiting(filter = {}) {
        const given = checkOptions('workflows.decisions.waiting', filter, ['workflow', 'limit'])
        const limit = integerOption('workflows.decisions.waiting', 'limit', given.limit, { min: 1, default: 100 })
        return findWaitingDecisions(db, codec, { workflow: filter.workflow, limit })
      },
      async of(id) {
        const instance = parseId('workflows.decisions.of: id', id)
        const [found] = await findInstances(db, codec, { id: instance, limit: 1 })
        if (!found) throw instanceNotFound(instance)
        return findDecisions(db, instance)
      },
    },
  }
}

const FILTERS = ['workflow', 'version', 'key', 'status', 'since', 'until', 'limit'] as const

function checkFilter(filter: WorkflowListFilter): InstanceFilter {
  const where = 'workflows.list'
  const given = checkOptions(where, filter, FILTERS)
  choiceOption(where, 'status', given.status, instanceStatuses, { default: undefined })
  integerOption(where, 'version', given.version, { min: 1, default: undefined })
  for (const name of ['since', 'until'] as const) dateOption(where, name, given[name], { default: undefined })
  return { ...filter, limit: integerOption(where, 'limit', given.limit, { min: 1, default: 100 }) }
}
