// The namespace `hf.workflows`: lists, definitions and open decisions, hooks and handlers. Only reads, apart from the registrations of
// this program; what changes instances is in `handle.ts` and `client.ts`.

import type { Database } from '../kernel/database/database.js'
import { parseId } from '../kernel/ids/id.js'
import { type Page, readCursor, toPage } from '../kernel/model/page.js'
import { checkOptions, choiceOption, dateOption, integerOption, textOption } from '../kernel/validation/options.js'
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
import { findDefinitions, type KnownWorkflow } from './queries/find-definitions.js'
import {
  countInstances,
  findInstance,
  type InstanceFilter,
  listInstances,
  type WorkflowRecord,
} from './queries/find-instances.js'
import { instanceStatuses } from './states.js'

export interface WorkflowListFilter extends InstanceFilter {
  /** Where the page before ended. */
  readonly cursor?: string
  /** How many. Default: 100. */
  readonly limit?: number
}

/** Declared saga graphs: their handlers and hooks, lists of instances, and what people have to do. */
export interface Workflows extends WorkflowMaintenance {
  /** Removes a handler: its steps are left to workers that have it. Returns whether it was registered. */
  removeHandler(name: string): boolean
  /** Adds hooks. Returns a function that removes them. */
  use(hooks: WorkflowHooks): () => void
  /**
   * The instances that match, newest first, in pages.
   *
   * @example
   * const { items, cursor } = await hf.workflows.list({ domain: 'shop', status: 'DLQ' })
   * const next = await hf.workflows.list({ domain: 'shop', status: 'DLQ', cursor })
   */
  list(filter?: WorkflowListFilter): Promise<Page<WorkflowRecord>>
  count(filter?: InstanceFilter): Promise<number>
  /** The workflows that the installation knows, by name and version. */
  definitions(): Promise<KnownWorkflow[]>
  /** Decisions that people have to make, and have made. */
  readonly decisions: {
    waiting(filter?: {
      readonly domain?: string
      readonly type?: string
      readonly limit?: number
    }): Promise<WaitingDecision[]>
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
      const { cursor, limit: _, ...which } = checkFilter('list', filter)
      const limit = integerOption('workflows.list', 'limit', filter.limit, { min: 1, max: 10_000, default: 100 })
      const after = readCursor('workflows.list', cursor)
      return toPage(await listInstances(db, codec, which, { limit: limit + 1, after }), limit, placeOf)
    },
    async count(filter = {}) {
      return countInstances(db, checkFilter('count', filter))
    },
    definitions: () => findDefinitions(db),
    decisions: {
      async waiting(filter = {}) {
        const given = checkOptions('workflows.decisions.waiting', filter, ['domain', 'type', 'limit'])
        const limit = integerOption('workflows.decisions.waiting', 'limit', given.limit, { min: 1, default: 100 })
        return findWaitingDecisions(db, codec, { domain: filter.domain, type: filter.type, limit })
      },
      async of(id) {
        const instance = parseId('workflows.decisions.of: id', id)
        if (!(await findInstance(db, codec, { id: instance }))) throw instanceNotFound(instance)
        return findDecisions(db, instance)
      },
    },
  }
}

const FILTERS = ['domain', 'type', 'version', 'key', 'status', 'since', 'until'] as const

function checkFilter(operation: 'list' | 'count', filter: WorkflowListFilter): WorkflowListFilter {
  const where = `workflows.${operation}`
  const given = checkOptions(where, filter, operation === 'list' ? [...FILTERS, 'cursor', 'limit'] : FILTERS)
  for (const name of ['domain', 'type', 'key'] as const) {
    textOption(where, name, given[name], { max: 512, default: undefined })
  }
  choiceOption(where, 'status', given.status, instanceStatuses, { default: undefined })
  integerOption(where, 'version', given.version, { min: 1, default: undefined })
  for (const name of ['since', 'until'] as const) dateOption(where, name, given[name], { default: undefined })
  return filter
}

const placeOf = ({ createdAt, id }: WorkflowRecord) => ({ createdAt, id })
