// The namespace `hf.workflows`: lists, definitions and open decisions, hooks and handlers. Only reads, apart from the registrations of
// this program; what changes instances is in `handle.ts` and `client.ts`.

import { parseId } from '../kernel/ids/id.js'
import { type Database, listFilter, type Page, page, toPage } from '../kernel/model/index.js'
import { choice, declareOptions, integer, text } from '../kernel/validation/declared.js'
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
    async list(filter) {
      const { cursor: after, limit, ...which } = checkList('workflows.list', filter)
      return toPage(await listInstances(db, codec, which, { limit: limit + 1, after }), limit, placeOf)
    },
    count: async (filter) => countInstances(db, checkCount('workflows.count', filter)),
    definitions: () => findDefinitions(db),
    decisions: {
      waiting: async (filter) => findWaitingDecisions(db, codec, checkWaiting('workflows.decisions.waiting', filter)),
      async of(id) {
        const instance = parseId('workflows.decisions.of: id', id)
        if (!(await findInstance(db, codec, { id: instance }))) throw instanceNotFound(instance)
        return findDecisions(db, instance)
      },
    },
  }
}

const filters = { ...listFilter, version: integer({ min: 1 }), status: choice(instanceStatuses) }
const checkList = declareOptions({ ...filters, ...page })
const checkCount = declareOptions(filters)
const checkWaiting = declareOptions({ domain: text(), type: text(), limit: integer({ min: 1, default: 100 }) })

const placeOf = ({ createdAt, id }: WorkflowRecord) => ({ createdAt, id })
