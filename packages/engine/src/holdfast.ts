import {
  addHandler,
  type Batches,
  type CommandClient,
  type CommandDefinition,
  type CommandHandler,
  type CommandHandlerOptions,
  type Commands,
  commandModel,
} from './commands/index.js'
import {
  checkItemKey,
  type Dispatch,
  type DispatchDefinition,
  type DispatchOf,
  definedDispatch,
  dispatchModel,
  ItemHandle,
  nothingBegins,
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
interface HandleCommand {
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
  readonly startMany: ProcessClient['startMany'] & ManagerClient['startMany'] & WorkflowClient['startMany']
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
  /** Rate limits: how often something may be done, across all workers and machines. */
  readonly limits: RateLimits
  /** PGMQ's queues, for replies and for your own messages. */
  readonly queues: QueueClient
  /** Which PGMQ is in use: the server's extension or its SQL, and which version. */
  queueInfo(): Promise<QueueInfo>
  /** A worker of one domain, which you start yourself. */
  worker(domain: string, options?: Omit<WorkerOptions, 'domains'>): DomainWorker
  /** Starts a worker for everything that is registered here; it also does the housekeeping of the installation. */
  run(options?: WorkerOptions): Promise<Worker>
  /** Stops claims of a domain, a definition or a handler; running work continues. */
  pause(subject: PauseSubject, by: By): Promise<boolean>
  resume(subject: PauseSubject, by: By): Promise<boolean>
  pauses(): Promise<Pause[]>
  /** The audit entries about one piece of work or setting, oldest first. Commands of two domains may share an id; `domain` selects one. */
  auditTrail(
    subject: { readonly id: string; readonly domain?: string } | { readonly name: string },
  ): Promise<RecordedAuditEntry[]>
  /**
   * Drains the workers that were started here, and the processes that `start` runs in this program, for at most 30 s by default, and
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
  const { close: closeLimits, ...limits } = createRateLimits(db, runtime.limiter)
  const commands = commandModel(runtime)
  const processes = processModel(runtime, commands)
  const workflows = workflowModel(runtime)
  const dispatch = dispatchModel(runtime, { processes, workflows })
  const models = [commands.model, processes.model, workflows.model, dispatch.model]
  const workers = new Set<Worker>()
  const told = new Set<() => void>()
  /** Workers that run already take up what is registered later. */
  const registered = () => {
    for (const tell of told) tell()
  }
  workflows.engine.handlers.onAdded(registered)
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
        handleSteps(workflows.engine, what, handler, handlerOptions)
        return
      }
      addHandler(commands.registry, what, handler, handlerOptions)
      registered()
    }) as Holdfast['handle'],
    send: (command, data, sendOptions) => commands.client.send(command, data, sendOptions),
    sendMany: (command, many, sendOptions) => commands.client.sendMany(command, many, sendOptions),
    command: (command, idOrKey) => commands.client.command(command, idOrKey),
    register(definition) {
      if (isWorkflow(definition)) {
        workflows.engine.register(definition)
        return registered()
      }
      const defined = definedDispatch(definition)
      if (defined) {
        dispatch.registry.add(defined)
        if ('workflow' in defined.target) workflows.engine.definitions.learn(defined.target.workflow)
      } else processes.engine.register(definition)
      registered()
    },
    start: ((
      definition: ProcessDefinition | ManagerDefinition | WorkflowReference,
      input: never,
      startOptions?: StartOptions & ManagerStartOptions & WorkflowStartOptions,
    ) => {
      if (typeof definition === 'string' || isWorkflow(definition))
        return workflows.client.start(definition, input, startOptions)
      return definition?.kind === 'manager'
        ? processes.managers.start(definition, input, startOptions)
        : processes.client.start(definition, input, startOptions)
    }) as Holdfast['start'],
    schedule: dispatch.scheduling.schedule.bind(dispatch.scheduling) as Holdfast['schedule'],
    item: (of: DispatchOf, key: string) => new ItemHandle(dispatch.items, of, checkItemKey('item', key)),
    startMany: ((
      definition: ProcessDefinition | ManagerDefinition | WorkflowReference,
      many: readonly never[],
      startOptions?: { readonly transaction?: Queryable },
    ) => {
      if (typeof definition === 'string' || isWorkflow(definition))
        return workflows.client.startMany(definition, many, startOptions)
      return definition?.kind === 'manager'
        ? processes.managers.startMany(definition, many, startOptions)
        : processes.client.startMany(definition, many, startOptions)
    }) as Holdfast['startMany'],
    workflow: ((workflow: WorkflowReference, idOrKey: string) =>
      workflows.client.workflow(workflow, idOrKey)) as Holdfast['workflow'],
    process: (definition, idOrKey) => new ProcessHandle(processes.calls, definition, idOrKey),
    commands: commands.namespace,
    batches: commands.batches,
    processes: processes.namespace,
    workflows: workflows.namespace,
    trouble: createTroubles(db, {
      commands: commands.bulk,
      processes: processes.bulk,
      workflows: workflows.bulk,
      dispatch: dispatch.bulk,
    }),
    dispatch: dispatch.namespace,
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
        // The caller does not get the worker, so it could not stop it.
        worker.stopNow()
        workers.delete(worker)
        throw error
      }
      return worker
    },
    async pause(subject, by) {
      const wasRunning = await pauseWork(db, subject, by, (kind, name) => models.some((model) => model.has(kind, name)))
      if ('definition' in subject) await nothingBegins(db, subject.definition)
      return wasRunning
    },
    resume: (subject, by) => resumeWork(db, subject, by),
    pauses: () => listPauses(db),
    auditTrail: (subject) => readAudit(db, subject),
    async close(timeout) {
      const drainMs = durationOption('close', 'timeout', timeout, { default: '30s' })
      closed = true
      const draining = models.map((model) => model.drain?.(drainMs))
      await Promise.all([...[...workers].map((worker) => worker.stop(drainMs)), ...draining])
      runtime.missing.close()
      await runtime.results.close()
      await Promise.all([...models.map((model) => model.close()), closeLimits()])
      await db.close()
    },
  }
  return coded(api, db.schema)
}
