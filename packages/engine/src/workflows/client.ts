import { type Batcher, createBatcher } from '../kernel/batching/batcher.js'
import type { Database } from '../kernel/database/database.js'
import type { Queryable } from '../kernel/database/executor.js'
import { GIVE_UP_AFTER } from '../kernel/database/retrying.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { newId, parseId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { type MissingWorkers, presenceIn } from '../kernel/results/presence.js'
import type { Results } from '../kernel/results/results.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, dateOption, durationOption } from '../kernel/validation/options.js'
import { decide } from './decide/decide.js'
import type { Decision } from './decide/decision.js'
import { nothing } from './decide/decision.js'
import { handlersOf, type WorkflowDefinition } from './definition/definition.js'
import type { KnownDefinition } from './definitions.js'
import type { WorkflowEngine } from './engine.js'
import { type StartAnswer, startInstances } from './queries/start-instances.js'
import { workflowResults } from './results.js'
import { addDecision, noChange, startDocument } from './store/document.js'
import { afterWrite, type StoredInstance, withDecision } from './store/stored-instance.js'

export interface WorkflowStartOptions {
  readonly id?: string
  /** Your own name for it, unique per workflow: starting it twice is starting it once. */
  readonly key?: string
  /** Nothing is called before this moment. */
  readonly startAt?: Date | string
  /** Start it in a transaction of yours: it begins when that commits. */
  readonly transaction?: Queryable
}

export interface StartedWorkflow {
  readonly id: string
  /** False: it had been started before, by this id or key. */
  readonly created: boolean
}

/** A definition, or the name of a stored one: `order` is its newest version, `order-v2` that one. */
export type WorkflowReference = WorkflowDefinition | string

export interface WorkflowClient {
  /**
   * Starts an instance: one write, and workers go on from there.
   *
   * @example
   * const { id } = await hf.start(Order, { orderId: 'O-1', total: 120 }, { key: 'O-1' })
   */
  start(workflow: WorkflowReference, input?: unknown, options?: WorkflowStartOptions): Promise<StartedWorkflow>
  /** Starts an instance, waits for its end (30 s unless told) and answers its output; an error where it did not complete. */
  startAndWait(
    workflow: WorkflowReference,
    input?: unknown,
    options?: Omit<WorkflowStartOptions, 'transaction'> & { readonly timeout?: Duration },
  ): Promise<unknown>
  /** Waits for the end of an instance and answers its output. */
  result(id: string, options?: { readonly timeout?: Duration }): Promise<unknown>
  close(): Promise<void>
}

interface Sealed {
  readonly id: string
  readonly key: string | undefined
  readonly document: string
  readonly decision: Decision
  readonly after: StoredInstance
}

interface ClientParts {
  readonly logger: Logger
  readonly metrics: Metrics
  readonly results: Results
  readonly missing: MissingWorkers
}

const OPTIONS = ['id', 'key', 'startAt'] as const

export function createWorkflowClient(
  db: Database,
  engine: WorkflowEngine,
  { logger, metrics, results, missing }: ClientParts,
): WorkflowClient {
  const { definitions, hooks, happenings } = engine
  const ends = workflowResults(db, engine.codec)
  const isLive = presenceIn(db, 'workflows')
  const starts: Batcher<Sealed, StartAnswer> = createBatcher<Sealed, StartAnswer>({
    name: 'workflows.start',
    key: ({ id, key }) => key ?? id,
    flush: async (sealed) => (await startInstances(db, sealed)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  async function start(
    workflow: WorkflowReference,
    input: unknown,
    options: WorkflowStartOptions = {},
  ): Promise<StartedWorkflow> {
    const known = await resolve(workflow)
    const { name, version } = known.definition
    const where = `start ${name}-v${version}`
    checkOptions(where, options, [...OPTIONS, 'transaction'])
    const sealed = seal(known, input, options, { engine, where })
    const instanceId = sealed.id
    if (hooks.any) await hooks.starting({ instanceId, workflow: name, version, input })
    const answer =
      options.transaction === undefined
        ? await starts.write(sealed)
        : (await startInstances(db.inside(options.transaction), [sealed]))[0]
    if (!answer?.id) throw new HoldfastError('HF_UNKNOWN_INSTANCE', { id: instanceId })
    if (answer.created) {
      for (const handler of handlersOf(known.definition)) missing.made('workflows', handler, isLive)
      if (options.transaction === undefined) {
        happenings.remember(sealed.after)
        // Its first steps may have ended with the start, and the instance with them.
        const { state, madeAt } = sealed.after
        hooks.happened({ definition: known.definition, decision: sealed.decision, state, madeAt })
      }
      return { id: answer.id, created: true }
    }
    if (answer.name !== name) {
      const actual = `${answer.name}-v${answer.version}`
      throw new HoldfastError('HF_INSTANCE_OF_OTHER_WORKFLOW', { id: answer.id, workflow: name, actual })
    }
    return { id: answer.id, created: false }
  }

  async function resolve(workflow: WorkflowReference): Promise<KnownDefinition> {
    if (typeof workflow === 'string') return definitions.find(workflow)
    if (typeof workflow === 'object' && workflow !== null && Array.isArray(workflow.steps)) {
      return definitions.store(workflow)
    }
    throw invalidOption('start', 'workflow', `must be a built workflow or the name of one, not ${describe(workflow)}`)
  }

  async function result(id: string, options: { readonly timeout?: Duration } = {}): Promise<unknown> {
    const given = checkOptions('workflows.result', options, ['timeout'])
    const limit = durationOption('workflows.result', 'timeout', given.timeout, { default: '30s' })
    return results.wait(ends, parseId('workflows.result: id', id), limit)
  }

  return {
    start,
    async startAndWait(workflow, input, { timeout, ...options } = {}) {
      const limit = durationOption('startAndWait', 'timeout', timeout, { default: '30s' })
      checkOptions('startAndWait', options, OPTIONS)
      const { id } = await start(workflow, input, options)
      return results.wait(ends, id, limit)
    },
    result,
    close: () => starts.close(GIVE_UP_AFTER),
  }
}

/**
 * What a start writes: the instance with what its beginning decides, or, where it begins later, with its start in the queue.
 * Nothing is written here.
 */
function seal(
  { id: definitionId, definition }: KnownDefinition,
  input: unknown,
  options: Omit<WorkflowStartOptions, 'transaction'>,
  { engine, where }: { readonly engine: Pick<WorkflowEngine, 'codec' | 'payloads'>; readonly where: string },
): Sealed {
  const id = options.id === undefined ? newId() : parseId(`${where}: id`, options.id)
  const key = options.key === undefined ? undefined : checkKey(where, options.key)
  const startAt = dateOption(where, 'startAt', options.startAt, { default: undefined })
  const before: StoredInstance = {
    definition,
    definitionId,
    revision: -1,
    lastWrite: null,
    epochs: new Map(),
    madeAt: performance.now(),
    state: {
      id,
      status: 'PENDING',
      input: engine.codec.encode(input ?? null, { at: 'input' }),
      output: null,
      failure: null,
      steps: new Map(),
    },
  }
  const begins = { type: 'started' } as const
  const decision = startAt ? nothing : decide(definition, before.state, begins, { payloads: engine.payloads })
  const change = noChange()
  addDecision(change, decision)
  const token = newId()
  const document = startDocument(before, change, { startAt, key })
  const after = { ...afterWrite(before, withDecision(before, decision), token), lastWrite: null }
  return { id, key, document, decision, after }
}
