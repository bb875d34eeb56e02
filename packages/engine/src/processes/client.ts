import { type Batcher, createBatcher } from '../kernel/batching/batcher.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Queryable } from '../kernel/database/executor.js'
import { GIVE_UP_AFTER } from '../kernel/database/retrying.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { StartedOne } from '../kernel/model/handle.js'
import { type MissingWorkers, presenceIn } from '../kernel/results/presence.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions } from '../kernel/validation/options.js'
import type { ResponseSchemas } from './context.js'
import type { ProcessDefinition } from './define.js'
import { type ProcessCalls, StartedProcess } from './handle.js'
import type { StarterExecutions } from './immediate.js'
import { flushStartsStatement, type SealedStart, type StartAnswer, startProcesses } from './queries/start-processes.js'
import { checkDefinition, notFound } from './reference.js'
import { type StartDetails, sealStart } from './seal-start.js'
import { hasEnded, type ProcessStatus } from './states.js'

export interface StartOptions extends StartDetails {
  /** Leave it to a worker, instead of running it here until it completes or pauses. */
  readonly deferred?: boolean
  /** Your own transaction: the process is created in it, and a worker starts it after the commit. */
  readonly transaction?: Queryable
}

export interface ProcessToStart<Input> extends StartDetails {
  readonly state: Input
}

export interface ProcessClient {
  /** Starts a process (P-10). A process that fails does not throw here: its failure is in its record. */
  start<Input, Responses extends ResponseSchemas, Result>(
    definition: ProcessDefinition<Input, Responses, Result>,
    state: NoInfer<Input>,
    options?: StartOptions,
  ): Promise<StartedProcess<Responses, Result>>
  /** Creates thousands, all or none, for workers to start. */
  startMany<Input, Responses extends ResponseSchemas, Result>(
    definition: ProcessDefinition<Input, Responses, Result>,
    processes: readonly ProcessToStart<NoInfer<Input>>[],
    options?: { readonly transaction?: Queryable; readonly batchId?: string },
  ): Promise<StartedOne[]>
  close(): Promise<void>
}

const CHUNK = 1_000
const DETAILS = ['id', 'key', 'startAt', 'deadline', 'attributes', 'batchId'] as const

interface Parts {
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly immediate: StarterExecutions
  readonly calls: ProcessCalls
  readonly missing: MissingWorkers
}

export function createProcessClient(
  db: Database,
  { codec, logger, metrics, immediate, calls, missing }: Parts,
): ProcessClient {
  const isLive = presenceIn(db, 'processes')
  const made = ({ name }: ProcessDefinition) => missing.made('processes', name, isLive)
  const starts: Batcher<SealedStart, StartAnswer> = createBatcher<SealedStart, StartAnswer>({
    name: 'processes.start',
    key: ({ id, key }) => key ?? id,
    flush: async (sealed) => (await startProcesses(db, sealed, flushStartsStatement)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  return {
    async start(definition, state, options = {}) {
      checkDefinition('start', definition)
      const process = definition as ProcessDefinition
      const where = `start ${definition.name}`
      const given = checkOptions(where, options, [...DETAILS, 'deferred', 'transaction'])
      const here =
        !booleanOption(where, 'deferred', given.deferred, { default: false }) &&
        options.transaction === undefined &&
        options.startAt === undefined &&
        (await immediate.allowed(process))
      const lending = here ? immediate.lending(process) : undefined
      const sealed = await sealStart(process, state, options, { codec, where, lending })
      const sentAt = performance.now()
      const answer =
        options.transaction === undefined
          ? await starts.write(sealed)
          : (await startProcesses(db.inside(options.transaction), [sealed]))[0]
      const { id, created, status } = checkAnswer(answer, sealed, process, options.batchId)
      const reached =
        answer?.lent && lending && created ? await immediate.run(process, sealed, { ...answer, sentAt }) : status
      if (!hasEnded(reached)) made(process)
      return new StartedProcess(calls, process, id, created)
    },
    async startMany(definition, processes, options = {}) {
      checkDefinition('startMany', definition)
      const process = definition as ProcessDefinition
      const given = checkOptions('startMany', options, ['transaction', 'batchId'])
      if (!Array.isArray(processes) || processes.length === 0) {
        throw invalidOption('startMany', 'processes', 'must hold at least one process')
      }
      const sealed: SealedStart[] = []
      for (const [place, one] of processes.entries()) {
        const where = `startMany ${definition.name}: processes[${place}]`
        checkOptions(where, one ?? null, ['state', ...DETAILS])
        const shared = given.batchId === undefined ? {} : { batchId: options.batchId as string }
        sealed.push(await sealStart(process, one.state, { ...one, ...shared }, { codec, where }))
      }
      refuseRepeated(sealed)
      const started: StartedOne[] = []
      const startAll = async (executor: Parameters<typeof startProcesses>[0]) => {
        started.length = 0
        for (let from = 0; from < sealed.length; from += CHUNK) {
          const chunk = sealed.slice(from, from + CHUNK)
          const answers = await startProcesses(executor, chunk)
          for (const [place, one] of chunk.entries()) {
            const batch = options.batchId ?? processes[from + place]?.batchId
            const { id, created } = checkAnswer(answers[place], one, process, batch)
            started.push({ id, created })
          }
        }
      }
      await (options.transaction === undefined
        ? db.transaction(startAll, { retry: true })
        : startAll(db.inside(options.transaction)))
      made(process)
      return started
    },
    close: () => starts.close(GIVE_UP_AFTER),
  }
}

export function checkAnswer(
  answer: StartAnswer | undefined,
  { id }: SealedStart,
  { name }: Pick<ProcessDefinition, 'name'>,
  batchId: string | undefined,
): StartedOne & { readonly status: ProcessStatus } {
  if (!answer) throw notFound(name, id)
  if (answer.status === 'batch closed') {
    throw new HoldfastError('HF_BATCH_CLOSED', { batchId: batchId ?? '', commandId: id })
  }
  if (answer.status === 'other type') {
    throw new HoldfastError('HF_PROCESS_OF_OTHER_TYPE', { id, process: name, actual: 'process of another definition' })
  }
  return { id: answer.id, status: answer.status, created: answer.created }
}

function refuseRepeated(sealed: readonly SealedStart[]): void {
  const seen = new Set<string>()
  for (const { id, key } of sealed) {
    for (const name of key === undefined ? [id] : [id, key]) {
      if (!seen.has(name)) seen.add(name)
      else {
        throw invalidOption('startMany', 'processes', `names ${name} twice`)
      }
    }
  }
}
