// Starts workflow instances for applications, one or many. `holdfast.ts` exposes it. Starts share statements through
// group commit. A start inside the caller's transaction must only insert, and a second start with the same key must
// return the first instance.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { parseId } from '../kernel/ids/id.js'
import {
  type Batcher,
  checkMany,
  createBatcher,
  type Database,
  type Executor,
  GIVE_UP_AFTER,
  presenceIn,
  type Queryable,
  type Runtime,
  type StartedOne,
} from '../kernel/model/index.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { inputSchemaOf } from './define.js'
import { handlersOf, isWorkflow, type WorkflowDefinition } from './definition/definition.js'
import { workflowReference } from './definition/names.js'
import type { KnownDefinition } from './definitions.js'
import { type EncodedStart, encodeStart, type WorkflowStartDetails } from './encode-start.js'
import type { WorkflowEngine } from './engine.js'
import { type HandleParts, StartedWorkflow, WorkflowHandle } from './handle.js'
import { instanceNotFound, ofOtherWorkflow } from './not-found.js'
import { createInstanceOperations } from './operations.js'
import { type StartAnswer, startInstances } from './queries/start-instances.js'
import { workflowResults } from './results.js'
import type { Workflow, WorkflowTypes } from './typed.js'

export interface WorkflowStartOptions extends WorkflowStartDetails {
  /** Start it in a transaction of yours: it begins when that commits. */
  readonly transaction?: Queryable
}

/** One of many that `startMany` begins. */
export interface WorkflowToStart<Input = unknown> extends WorkflowStartDetails {
  readonly input: Input
}

/** An input that was not declared can be left out. */
type StartArguments<Input> = unknown extends Input
  ? [input?: unknown, options?: WorkflowStartOptions]
  : [input: Input, options?: WorkflowStartOptions]

/** A definition, or the name of a stored one: `order` is its newest version, `order-v2` that one. */
export type WorkflowReference = WorkflowDefinition | string

export interface WorkflowClient {
  /**
   * Starts an instance with one write; workers execute it.
   *
   * @example
   * const order = await hf.start(Order, { orderId: 'O-1', total: 120 }, { key: 'O-1' })
   * console.log(await order.result())
   */
  start<Types extends WorkflowTypes>(
    workflow: Workflow<Types> | string,
    ...given: StartArguments<Types['input']>
  ): Promise<StartedWorkflow<Types['result'], Types['humans']>>
  /**
   * Starts thousands of instances, all or none, each with its own id and key.
   *
   * @example
   * await hf.startMany(Order, orders.map((order) => ({ input: order, key: order.id })), { transaction: tx })
   */
  startMany<Types extends WorkflowTypes>(
    workflow: Workflow<Types> | string,
    instances: readonly WorkflowToStart<NoInfer<Types['input']>>[],
    options?: { readonly transaction?: Queryable },
  ): Promise<StartedOne[]>
  /**
   * The handle of an instance, by its id or key. Costs no query. With an id alone it is an instance of any workflow.
   *
   * @example
   * await hf.workflow(Order, 'O-1').cancel({ actor: 'ann', reason: 'the customer called' })
   */
  workflow<Types extends WorkflowTypes>(
    workflow: Workflow<Types> | string,
    idOrKey: string,
  ): WorkflowHandle<Types['result'], Types['humans']>
  workflow(id: string): WorkflowHandle
  close(): Promise<void>
}

interface Resolved extends KnownDefinition {
  /** Of the input, where this program has it. */
  readonly schema: StandardSchemaV1 | undefined
  /** It has a schema, and this program does not: a worker that does checks the input before the first step. */
  readonly isUnchecked: boolean
}

type ClientParts = Pick<Runtime, 'logger' | 'metrics' | 'results' | 'missing'>

const CHUNK = 500
const OPTIONS = ['id', 'key', 'startAt', 'delay'] as const

export function createWorkflowClient(
  db: Database,
  engine: WorkflowEngine,
  { logger, metrics, results, missing }: ClientParts,
): WorkflowClient {
  const { codec, definitions, hooks, events } = engine
  const isLive = presenceIn(db, 'workflows')
  const ends = workflowResults(db, codec)
  const handles: HandleParts = {
    db,
    codec,
    definitions,
    result: (id, limitMs) => results.wait(ends, id, limitMs),
    operations: createInstanceOperations(db, engine),
  }
  const starts: Batcher<EncodedStart, StartAnswer> = createBatcher<EncodedStart, StartAnswer>({
    name: 'workflows.start',
    key: orderOf,
    flush: async (encoded) => (await startInstances(db, encoded)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  async function prepare(resolved: Resolved, given: unknown, options: WorkflowStartDetails, where: string) {
    const { name, version } = resolved.definition
    const { schema } = resolved
    const input = schema === undefined ? given : await parseWith(schema, given, `${where}: input`)
    const encoded = encodeStart(resolved, input, options, { engine, where })
    if (hooks.any) await hooks.starting({ instanceId: encoded.id, workflow: name, version, input })
    return encoded
  }

  /** Handles the result of a start. */
  function began(
    { definition }: KnownDefinition,
    encoded: EncodedStart,
    answer: StartAnswer | undefined,
    mayForget: boolean,
  ) {
    const { name } = definition
    if (!answer?.id) throw instanceNotFound(encoded.id, name)
    if (!answer.created && answer.name !== name) {
      const actual = `${answer.name}-v${answer.version}`
      throw ofOtherWorkflow(name, answer.id, actual)
    }
    if (answer.created) {
      for (const handler of handlersOf(definition)) missing.made('workflows', handler, isLive)
      // The transaction of the caller may be rolled back.
      if (!mayForget) {
        events.remember(encoded.after)
        // Its first steps may have ended with the start, and the instance with them.
        const { state, madeAt } = encoded.after
        events.committed({ definition, decision: encoded.decision, state, madeAt })
      }
    }
    return { id: answer.id, created: answer.created }
  }

  async function resolve(workflow: WorkflowReference): Promise<Resolved> {
    if (typeof workflow === 'string') {
      const { checksInput, ...known } = await definitions.find(workflow)
      const schema = definitions.inputSchema(known.definition)
      return { ...known, schema, isUnchecked: checksInput && schema === undefined }
    }
    if (!isWorkflow(workflow)) throw noWorkflow('start', workflow)
    return { ...(await definitions.store(workflow)), schema: inputSchemaOf(workflow), isUnchecked: false }
  }

  return {
    async start(workflow: WorkflowReference, input?: unknown, options: WorkflowStartOptions = {}) {
      const known = await resolve(workflow)
      const { name, version } = known.definition
      const where = `start ${name}-v${version}`
      const { transaction } = checkOptions(where, options, [...OPTIONS, 'transaction']) as WorkflowStartOptions
      const encoded = await prepare(known, input, options, where)
      const answer =
        transaction === undefined
          ? await starts.write(encoded)
          : (await startInstances(db.inside(transaction), [encoded]))[0]
      const { id, created } = began(known, encoded, answer, transaction !== undefined)
      return new StartedWorkflow(handles, { workflow: name, idOrKey: id, isChecked: true }, created)
    },
    async startMany(workflow: WorkflowReference, instances, options = {}) {
      checkOptions('startMany', options, ['transaction'])
      checkMany('startMany', 'instances', instances)
      const known = await resolve(workflow)
      const { name, version } = known.definition
      const encoded: EncodedStart[] = []
      for (const [place, instance] of instances.entries()) {
        const where = `startMany ${name}-v${version}: instances[${place}]`
        checkOptions(where, instance, [...OPTIONS, 'input'])
        encoded.push(await prepare(known, instance.input, instance, where))
      }
      // In one order, so that two callers with the same keys cannot wait for each other.
      const sorted = encoded.toSorted((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1))
      const { transaction } = options
      const answers = new Map<EncodedStart, StartAnswer | undefined>()
      const write = async (tx: Executor) => {
        for (let from = 0; from < sorted.length; from += CHUNK) {
          const chunk = sorted.slice(from, from + CHUNK)
          const found = await startInstances(tx, chunk)
          chunk.forEach((one, place) => {
            answers.set(one, found[place])
          })
        }
      }
      if (transaction !== undefined) await write(db.inside(transaction))
      else if (sorted.length <= CHUNK) await write(db)
      else await db.transaction(write)
      return encoded.map((one) => began(known, one, answers.get(one), transaction !== undefined))
    },
    workflow(workflow: WorkflowReference, idOrKey?: string) {
      if (idOrKey === undefined) return new WorkflowHandle(handles, { idOrKey: parseId('workflow: id', workflow) })
      if (typeof idOrKey !== 'string') {
        throw invalidOption('workflow', 'idOrKey', `must be a text, not ${describe(idOrKey)}`)
      }
      return new WorkflowHandle(handles, { workflow: nameOf(workflow), idOrKey })
    },
    close: () => starts.close(GIVE_UP_AFTER),
  }
}

const orderOf = ({ id, key }: Pick<EncodedStart, 'id' | 'key'>) => key ?? id

function nameOf(workflow: WorkflowReference): string {
  if (typeof workflow === 'string') return workflowReference(workflow).name
  if (isWorkflow(workflow)) return workflow.name
  throw noWorkflow('workflow', workflow)
}

const noWorkflow = (where: string, workflow: unknown) =>
  invalidOption(where, 'workflow', `must be a built workflow or the name of one, not ${describe(workflow)}`)
