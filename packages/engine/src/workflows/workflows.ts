import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, dateOption, integerOption } from '../kernel/validation/options.js'
import type { WorkflowClient } from './client.js'
import type { StepHandler, StepInquire } from './context.js'
import type { Workflow } from './define.js'
import { handlersOf, type WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import type { WorkflowHooks } from './hooks.js'
import { createWorkflowOperations, type WorkflowOperations } from './operations.js'
import {
  countDeadLetters,
  type DeadLetterFilter,
  type DeadLetterGroup,
  findDeadLetters,
  groupDeadLetters,
  type WorkflowDeadLetter,
} from './queries/find-dead-letters.js'
import {
  findDecisions,
  findWaitingDecisions,
  type RecordedDecision,
  type WaitingDecision,
} from './queries/find-decisions.js'
import { findEvents, type WorkflowEventRecord } from './queries/find-events.js'
import { findInstances, type InstanceFilter, type WorkflowRecord } from './queries/find-instances.js'
import { findSteps, type WorkflowStepRecord } from './queries/find-steps.js'
import { loadInstances } from './queries/load-instances.js'
import { addStepHandler } from './registry.js'
import { renderMermaid } from './render/mermaid.js'
import { renderText } from './render/text.js'
import { instanceStatuses } from './states.js'

export type WorkflowListFilter = Partial<Omit<InstanceFilter, 'id'>>

type OutputOf<Schema extends StandardSchemaV1> = StandardSchemaV1.InferOutput<Schema>

/** Declared saga graphs: starting them, the handlers of their steps, looking at them, and what people do with them. */
export interface Workflows extends Omit<WorkflowClient, 'start' | 'close'>, WorkflowOperations {
  /**
   * Registers the handler of a step or a compensation under the name that definitions use, in whatever service has it.
   *
   * @example
   * hf.workflows.handle('ChargeCard', async (order, ctx) => cards.charge(order, ctx.idempotencyKey), { input: Order })
   */
  handle<Schema extends StandardSchemaV1>(
    name: string,
    handler: StepHandler<OutputOf<Schema>>,
    options: { readonly input: Schema; readonly inquire?: StepInquire<OutputOf<Schema>> },
  ): void
  /** With `inquire` a call that must not be repeated (`nonIdempotent`) can be asked about when its outcome is unknown. */
  handle(name: string, handler: StepHandler, options?: { readonly inquire?: StepInquire }): void
  /** Several at once; their names are those of the workflow, and the compiler knows them. */
  handle<Steps extends string, Handlers extends string, Humans extends string>(
    workflow: Workflow<Steps, Handlers, Humans>,
    handlers: { readonly [Name in Handlers]?: StepHandler },
  ): void
  /** Takes a handler away: its steps are left to workers that have it. Answers whether it was there. */
  removeHandler(name: string): boolean
  /** Adds hooks (W-15); answers how to remove them. */
  use(hooks: WorkflowHooks): () => void
  /** One instance as it stands. */
  status(id: string): Promise<WorkflowRecord>
  /** Its steps that have been reached, in that order. */
  steps(id: string): Promise<WorkflowStepRecord[]>
  /** Everything that changed it, oldest first. */
  events(id: string): Promise<WorkflowEventRecord[]>
  /** Those that fit, newest first; 100 unless `limit` says otherwise. */
  list(filter?: WorkflowListFilter): Promise<WorkflowRecord[]>
  /** An instance as text, or as Mermaid, with how far it has come. `renderText` and `renderMermaid` show definitions. */
  render(id: string, format?: 'text' | 'mermaid'): Promise<string>
  /** What people have to decide, and have decided. */
  readonly decisions: {
    waiting(filter?: { readonly workflow?: string; readonly limit?: number }): Promise<WaitingDecision[]>
    of(id: string): Promise<RecordedDecision[]>
  }
  /** Steps and compensations that failed for good and wait for a person. */
  readonly deadLetters: {
    list(filter?: DeadLetterFilter): Promise<WorkflowDeadLetter[]>
    count(filter?: DeadLetterFilter): Promise<number>
    groups(filter?: DeadLetterFilter): Promise<DeadLetterGroup[]>
  }
}

export function createWorkflows(db: Database, engine: WorkflowEngine, client: WorkflowClient): Workflows {
  const { codec, handlers, hooks, definitions } = engine

  async function status(id: string): Promise<WorkflowRecord> {
    const [record] = await findInstances(db, codec, { id: parseId('workflows.status: id', id), limit: 1 })
    if (!record) throw new HoldfastError('HF_UNKNOWN_INSTANCE', { id })
    return record
  }

  function handle(
    what: string | WorkflowDefinition,
    handler: StepHandler | Readonly<Record<string, StepHandler | undefined>>,
    options: { readonly input?: StandardSchemaV1; readonly inquire?: StepInquire } = {},
  ): void {
    if (typeof what === 'string' && typeof handler === 'function') {
      checkOptions(`workflows.handle ${what}`, options, ['input', 'inquire'])
      addStepHandler(handlers, what, handler, options)
      return
    }
    if (typeof what !== 'object' || what === null || typeof handler !== 'object' || handler === null) {
      throw invalidOption(
        'workflows.handle',
        'handler',
        `must be a name and a function, or a workflow and an object of functions, not ${describe(what)} and ${describe(handler)}`,
      )
    }
    checkOptions(`workflows.handle for ${what.name}`, handler, handlersOf(what))
    for (const [name, one] of Object.entries(handler)) if (one !== undefined) addStepHandler(handlers, name, one)
  }

  return {
    startAndWait: (workflow, input, options) => client.startAndWait(workflow, input, options),
    result: (id, options) => client.result(id, options),
    ...createWorkflowOperations(db, engine),
    handle,
    removeHandler: (name) => handlers.remove(name),
    use: (added) => hooks.add(added),
    status,
    async steps(id) {
      await status(id)
      return findSteps(db, codec, id)
    },
    async events(id) {
      return findEvents(db, parseId('workflows.events: id', id))
    },
    async list(filter = {}) {
      return findInstances(db, codec, checkFilter(filter))
    },
    async render(id, format = 'text') {
      const chosen = choiceOption('workflows.render', 'format', format, ['text', 'mermaid'])
      const instance = parseId('workflows.render: id', id)
      const found = await loadInstances(db, (definition) => definitions.byId(definition), [instance])
      const stored = found.get(instance)
      if (!stored) throw new HoldfastError('HF_UNKNOWN_INSTANCE', { id })
      return (chosen === 'text' ? renderText : renderMermaid)(stored.definition, stored.state)
    },
    decisions: {
      async waiting(filter = {}) {
        const given = checkOptions('workflows.decisions.waiting', filter, ['workflow', 'limit'])
        const limit = integerOption('workflows.decisions.waiting', 'limit', given.limit, { min: 1, default: 100 })
        return findWaitingDecisions(db, codec, { workflow: filter.workflow, limit })
      },
      of: async (id) => findDecisions(db, parseId('workflows.decisions.of: id', id)),
    },
    deadLetters: {
      list: async (filter) => findDeadLetters(db, codec, checkLetters('list', filter)),
      count: async (filter) => countDeadLetters(db, checkLetters('count', filter)),
      groups: async (filter) => groupDeadLetters(db, checkLetters('groups', filter)),
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

function checkLetters(operation: string, filter: DeadLetterFilter = {}): DeadLetterFilter {
  const where = `workflows.deadLetters.${operation}`
  const given = checkOptions(where, filter, ['workflow', 'step', 'instanceId', 'fingerprint', 'limit'])
  integerOption(where, 'limit', given.limit, { min: 1, default: undefined })
  if (given.instanceId !== undefined) parseId(`${where}: instanceId`, given.instanceId)
  return filter
}
