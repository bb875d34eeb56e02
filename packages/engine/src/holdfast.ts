import {
  addHandler,
  type Batches,
  type CommandClient,
  type CommandDefinition,
  type CommandHandler,
  type CommandHandlerOptions,
  type Commands,
  commandModel,
  createBatches,
  createCommandBulk,
  createCommandCalls,
  createCommandClient,
  createCommandOperations,
  createCommands,
  createDomains,
  createHandlerRegistry,
  createOutgoing,
} from './commands/index.js'
import {
  checkItemKey,
  createDispatch,
  createDispatchBulk,
  createDispatchRegistry,
  createItemCalls,
  createItemOperations,
  createScheduling,
  type Dispatch,
  type DispatchDefinition,
  type DispatchOf,
  dispatchModel,
  type Executions,
  ItemHandle,
  isDispatch,
  type OwnExecution,
  type Scheduling,
} from './dispatch/index.js'
import { type By, type RecordedAuditEntry, readAudit } from './kernel/audit/audit.js'
import { coded, codedError } from './kernel/database/coded.js'
import type { Database } from './kernel/database/database.js'
import type { Queryable } from './kernel/database/executor.js'
import { openDatabase } from './kernel/database/open.js'
import { storePayloadLimit } from './kernel/database/payload-limit.js'
import type { Duration } from './kernel/duration/duration.js'
import { HoldfastError } from './kernel/errors.js'
import { migrate } from './kernel/migrations/migrate.js'
import { verifySchema } from './kernel/migrations/verify.js'
import { listPauses, type Pause, type PauseSubject, pauseWork, resumeWork } from './kernel/pausing/pausing.js'
import { durationOption } from './kernel/validation/options.js'
import { createRateLimits, type RateLimits } from './limiter/index.js'
import { checkHoldfastOptions, type HoldfastOptions, loggerOf } from './options.js'
import {
  createManagerClient,
  createProcessBulk,
  createProcessCalls,
  createProcessClient,
  createProcessEngine,
  createProcesses,
  createProcessOperations,
  createStarterExecutions,
  isManager,
  type ManagerClient,
  type ManagerDefinition,
  type ManagerStartOptions,
  type ProcessClient,
  type ProcessDefinition,
  type Processes,
  ProcessHandle,
  type ProcessOf,
  processModel,
  type ResponseSchemas,
  type StartOptions,
} from './processes/index.js'
import { createQueueClient, installQueue, type QueueClient, type QueueInfo, queueInfo } from './queue/index.js'
import { createRuntime, type RuntimeOptions } from './runtime.js'
import { createTroubles, type Troubles } from './trouble/index.js'
import { createWorker, type DomainWorker, type Worker, type WorkerOptions } from './worker.js'
import {
  createWorkflowBulk,
  createWorkflowClient,
  createWorkflowEngine,
  createWorkflows,
  type HandleSteps,
  handleSteps,
  isWorkflow,
  type StepHandler,
  type StepHandlerOptions,
  type WorkflowClient,
  type WorkflowDefinition,
  type WorkflowReference,
  type WorkflowStartOptions,
  type Workflows,
  workflowModel,
} from './workflows/index.js'

/** Registering the handler of a command. */
export interface HandleCommand {
  /** A command with `atMostOnce` may have an `inquire` too. */
  <Input, Data, Result>(
    command: CommandDefinition<Input, Data, Result>,
    handler: CommandHandler<Data, Result>,
    options?: CommandHandlerOptions<Data, Result>,
  ): void
}

/** An open installation of Holdfast: one schema in one PostgreSQL database. */
export interface Holdfast
  extends Pick<CommandClient, 'send' | 'sendMany' | 'command'>,
    Pick<WorkflowClient, 'workflow'>,
    Pick<Scheduling, 'schedule'> {
  readonly schema: string
  /** Starts a process, a step-based process or a workflow. One that fails does not throw here: its failure is in its record. */
  readonly start: ProcessClient['start'] & ManagerClient['start'] & WorkflowClient['start']
  /**
   * The handle of one process or manager, by its id or key. Costs no query; each call on it rejects for an unknown id.
   *
   * @example
   * await hf.process(Payment, 'PAY-1').respond('approved', { by: 'ann' })
   */
  process<Responses extends ResponseSchemas, Result>(
    definition: ProcessOf<Responses, Result>,
    idOrKey: string,
  ): ProcessHandle<Responses, Result>
  /** An item of a dispatch, by its key. Costs no query. */
  item<Input, Result>(dispatch: DispatchDefinition<Input, Result>, key: string): ItemHandle<Input, Result>
  item(dispatch: DispatchOf, key: string): ItemHandle
  /** Starts thousands of processes or workflow instances, all or none, for workers to run. */
  readonly startMany: ProcessClient['startMany'] & WorkflowClient['startMany']
  /** Registers the handler of a command, or the handlers of the steps of workflows. Each has one handler per program. */
  readonly handle: HandleCommand & HandleSteps
  /** Registers a process, a manager or a type of dispatched items, so that workers started here run it; or stores a workflow. */
  register<Input, Responses extends ResponseSchemas, Result>(
    definition:
      | ProcessDefinition<Input, Responses, Result>
      | ManagerDefinition<Input>
      | WorkflowDefinition
      | DispatchDefinition<Input>,
  ): void
  /** Lists of commands. One command is `hf.command`. */
  readonly commands: Commands
  readonly batches: Batches
  /** The processes and managers of the installation: lists, and what operators set for their definitions. */
  readonly processes: Processes
  /** Declared saga graphs. */
  readonly workflows: Workflows
  /** Work that needs a person, of all models. */
  readonly trouble: Troubles
  /** Scheduled work, released at a rate. */
  readonly dispatch: Dispatch
  /** How often something may be done, across all workers and machines. */
  readonly limits: RateLimits
  /** PGMQ's queues, for replies and for your own messages. */
  readonly queues: QueueClient
  /** Which PGMQ is in use: the server's extension or its SQL, and which version. */
  queueInfo(): Promise<QueueInfo>
  /** A worker of one domain, which you start yourself. */
  worker(domain: string, options?: Omit<WorkerOptions, 'domains'>): DomainWorker
  /** Starts a worker for everything that is registered here; it also does the housekeeping of the installation. */
  run(options?: WorkerOptions): Promise<Worker>
  /** Stops claims of a domain, a definition or a handler; what is running goes on. */
  pause(subject: PauseSubject, by: By): Promise<boolean>
  resume(subject: PauseSubject, by: By): Promise<boolean>
  pauses(): Promise<Pause[]>
  /** What is on record about a thing, oldest first. Commands of two domains may share an id; `domain` tells them apart. */
  auditTrail(
    subject: { readonly id: string; readonly domain?: string } | { readonly name: string },
  ): Promise<RecordedAuditEntry[]>
  /**
   * Drains the workers started here and the processes that run in their starter, for 30 seconds unless you give another time, and
   * closes the connections. A pool of yours stays open.
   */
  close(timeout?: Duration): Promise<void>
}

/**
 * Opens Holdfast on a PostgreSQL database and brings its schema up to date.
 *
 * @example
 * const hf = await holdfast({ connectionString: 'postgres://app@localhost/shop' })
 * hf.handle(BookRisk, (request, ctx) => risk.book(request, ctx.idempotencyKey))
 * const worker = await hf.run({ concurrency: 50 })
 * await hf.close()
 */
export async function holdfast(options: HoldfastOptions = {}): Promise<Holdfast> {
  const { migrate: mayMigrate } = checkHoldfastOptions('holdfast', options)
  const logger = loggerOf(options.logger)
  const began = performance.now()
  const db = await openDatabase({ ...options, logger })
  try {
    if (mayMigrate) {
      await migrate(db, { logger })
      await installQueue(db, { logger })
    } else {
      await verifySchema(db)
      await queueInfo(db)
    }
    if (options.codec?.maxBytes !== undefined) await storePayloadLimit(db, options.codec.maxBytes)
  } catch (error) {
    await db.close()
    throw codedError(error, db.schema, 'holdfast', performance.now() - began)
  }
  return assemble(db, { ...options, logger })
}

/** The installation over a database that is open and migrated; tests give one with fault points. */
export function assemble(db: Database, options: RuntimeOptions): Holdfast {
  const runtime = createRuntime(db, options)
  const { codec, logger, metrics, reports, results, missing, limiter, gate, name, abortGraceMs, inquireForMs } = runtime
  const { close: closeLimits, ...limits } = createRateLimits(db, limiter)
  const registry = createHandlerRegistry()
  const queues = createDomains(db)
  const operations = createCommandOperations(db, codec, registry, reports)
  const calls = createCommandCalls(db, codec, { operations, results })
  const client = createCommandClient(db, queues, { calls, codec, logger, metrics, missing })
  const outgoing = createOutgoing(db, queues, codec)
  const engine = createProcessEngine(db, {
    codec,
    commands: client,
    outgoing,
    limiter,
    abortGraceMs,
    inquireForMs,
    logger,
    metrics,
    reports,
  })
  const processOperations = createProcessOperations(db, { codec, registry: engine.registry, logger, reports })
  const processCalls = coded(createProcessCalls(db, engine, processOperations, results), db.schema, 'hf.process')
  const managerClient = createManagerClient(db, {
    codec,
    outgoing,
    logger,
    metrics,
    reports,
    missing,
    calls: processCalls,
  })
  const immediate = createStarterExecutions(db, {
    name,
    isAllowed: (definition) =>
      options.immediate !== false &&
      definition.immediate &&
      (options.immediate === 'unregistered' || engine.registry.find(definition.name) === definition),
    settings: engine.settings,
    live: engine.live,
    gate,
    partsFor: (definition, stop) => engine.partsFor(definition, { inStarter: true, stop }),
    logger,
    metrics,
  })
  const processClient = createProcessClient(db, { codec, logger, metrics, immediate, calls: processCalls, missing })
  const workflowEngine = createWorkflowEngine(db, {
    codec,
    abortGraceMs,
    inquireForMs,
    logger,
    metrics,
    reports,
  })
  const workflowClient = createWorkflowClient(db, workflowEngine, { logger, metrics, results, missing })
  const dispatches = createDispatchRegistry()
  const processes = createProcesses(db, engine)
  const workflows = createWorkflows(db, workflowEngine)
  const executionOf = ({ model, type, id }: OwnExecution) => {
    if (model === 'workflows') return workflowClient.workflow(id)
    const slash = type.indexOf('/')
    return new ProcessHandle(processCalls, { domain: type.slice(0, slash), type: type.slice(slash + 1) }, id)
  }
  const executions: Executions = {
    cancel: (execution, by, cancelOptions) => executionOf(execution).cancel(by, cancelOptions),
    why: (execution) => executionOf(execution).why(),
    find: (itemType) => dispatches.find(itemType),
  }
  const itemOperations = createItemOperations(db, codec, executions)
  const items = coded(
    createItemCalls(db, { codec, results, operations: itemOperations, executions }),
    db.schema,
    'hf.item',
  )
  const scheduling = createScheduling(db, { codec, logger, metrics, items })
  const workers = new Set<Worker>()
  const told = new Set<() => void>()
  /** Workers that run already take up what is registered later. */
  const registered = () => {
    for (const tell of told) tell()
  }
  workflowEngine.handlers.onAdded(registered)
  const models = [
    commandModel(runtime, { registry, queues }),
    processModel(runtime, { engine, outgoing }),
    workflowModel(runtime, workflowEngine),
    dispatchModel(runtime, { registry: dispatches, workflows: workflowEngine }),
  ]
  let closed = false
  const newWorker = (workerOptions: WorkerOptions | undefined) => {
    if (closed) throw new HoldfastError('HF_STOPPED', { what: 'this instance of Holdfast' })
    const created = createWorker(runtime, models, workerOptions)
    workers.add(created.worker)
    told.add(created.registered)
    return created.worker
  }
  const api: Holdfast = {
    schema: db.schema,
    handle: ((
      what: CommandDefinition | WorkflowDefinition | string,
      handler: CommandHandler<unknown, unknown> & StepHandler,
      handlerOptions?: CommandHandlerOptions<unknown, unknown> & StepHandlerOptions,
    ) => {
      if (typeof what === 'string' || isWorkflow(what)) {
        handleSteps(workflowEngine, what, handler, handlerOptions)
        return
      }
      addHandler(registry, what, handler, handlerOptions)
      registered()
    }) as Holdfast['handle'],
    send: (command, data, sendOptions) => client.send(command, data, sendOptions),
    sendMany: (command, commands, sendOptions) => client.sendMany(command, commands, sendOptions),
    command: (command, idOrKey) => client.command(command, idOrKey),
    register(definition) {
      if (isWorkflow(definition)) {
        workflowEngine.registered.add(definition)
        return registered()
      }
      if (isDispatch(definition)) {
        dispatches.add(definition)
        return registered()
      }
      engine.register(definition)
      registered()
    },
    start: ((
      definition: ProcessDefinition | ManagerDefinition | WorkflowReference,
      input: never,
      startOptions?: StartOptions & ManagerStartOptions & WorkflowStartOptions,
    ) => {
      if (typeof definition === 'string' || isWorkflow(definition))
        return workflowClient.start(definition, input, startOptions)
      return isManager(definition)
        ? managerClient.start(definition, input, startOptions)
        : processClient.start(definition, input, startOptions)
    }) as Holdfast['start'],
    schedule: scheduling.schedule,
    item: (dispatch: DispatchOf, key: string) => new ItemHandle(items, dispatch, checkItemKey('item', key)),
    startMany: ((
      definition: ProcessDefinition | WorkflowReference,
      many: readonly never[],
      startOptions?: { readonly transaction?: Queryable },
    ) =>
      typeof definition === 'string' || isWorkflow(definition)
        ? workflowClient.startMany(definition, many, startOptions)
        : processClient.startMany(definition, many, startOptions)) as Holdfast['startMany'],
    workflow: ((workflow: WorkflowReference, idOrKey: string) =>
      workflowClient.workflow(workflow, idOrKey)) as Holdfast['workflow'],
    process: (definition, idOrKey) => new ProcessHandle(processCalls, definition, idOrKey),
    commands: createCommands(db, codec, queues),
    batches: createBatches(db, client, queues, codec),
    processes,
    workflows,
    trouble: createTroubles(db, {
      commands: createCommandBulk(db, { codec, registry, reports }),
      processes: createProcessBulk(db, { codec, registry: engine.registry, logger, reports }),
      workflows: createWorkflowBulk(db, workflowEngine),
      dispatch: createDispatchBulk(db),
    }),
    dispatch: createDispatch(db, itemOperations),
    limits,
    queues: createQueueClient(db),
    queueInfo: () => queueInfo(db),
    worker(domain, workerOptions = {}) {
      // What is no object is refused there, before a long text is taken apart here.
      const given = typeof workerOptions === 'object' ? { ...workerOptions, domains: [domain] } : workerOptions
      return Object.assign(newWorker(given), { domain })
    },
    async run(workerOptions) {
      const worker = newWorker(workerOptions)
      try {
        await worker.start()
      } catch (error) {
        // Nobody has it, so nobody could stop what it has begun.
        worker.stopNow()
        workers.delete(worker)
        throw error
      }
      return worker
    },
    pause: (subject, by) => pauseWork(db, subject, by, (kind, name) => models.some((model) => model.has(kind, name))),
    resume: (subject, by) => resumeWork(db, subject, by),
    pauses: () => listPauses(db),
    auditTrail: (subject) => readAudit(db, subject),
    async close(timeout) {
      const drainMs = durationOption('close', 'timeout', timeout, { default: '30s' })
      closed = true
      await Promise.all([...[...workers].map((worker) => worker.stop(drainMs)), immediate.drain(drainMs)])
      missing.close()
      await results.close()
      await immediate.close()
      // Side by side: each waits for its own writes, for a bounded time.
      const clients = [processClient, managerClient, scheduling, workflowClient, client]
      await Promise.all([...clients.map((each) => each.close()), closeLimits()])
      await Promise.all([engine.close(), workflowEngine.close()])
      await db.close()
    },
  }
  return coded(api, db.schema)
}
