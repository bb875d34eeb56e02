// Starts processes for applications, one or many. `holdfast.ts` exposes it. Starts share statements through group
// commit. A start inside the caller's transaction must only insert, and a second start with the same key must return
// the first process.

import {
  type Batcher,
  createBatcher,
  type Database,
  GIVE_UP_AFTER,
  presenceIn,
  type Queryable,
  type Runtime,
  type StartedOne,
} from '../kernel/model/index.js'
import { booleanOption, checkOptions } from '../kernel/validation/options.js'
import type { ResponseSchemas } from './context.js'
import type { ProcessDefinition } from './define.js'
import { encodeStart, type StartDetails } from './encode-start.js'
import { type ProcessCalls, StartedProcess } from './handle.js'
import type { StarterExecutions } from './immediate.js'
import { type EncodedStart, flushStartsStatement, type StartAnswer, startProcesses } from './queries/start-processes.js'
import { checkDefinition } from './reference.js'
import { checkAnswer, DETAILS, type ProcessToStart, type StartManyOptions, startAll } from './start-many.js'
import { hasEnded } from './states.js'

export interface StartOptions extends StartDetails {
  /**
   * False leaves it to a worker. Otherwise it runs here until it completes or waits, if this program has registered the definition and
   * neither the installation nor the definition says `immediate: false`. Default: true.
   */
  readonly immediate?: boolean
  /** Your own transaction: the process is created in it, and a worker starts it after the commit. */
  readonly transaction?: Queryable
}

export interface ProcessClient {
  /** Starts a process. A process that fails does not throw here: its failure is in its record. */
  start<Input, Responses extends ResponseSchemas, Result>(
    definition: ProcessDefinition<Input, Responses, Result>,
    state: NoInfer<Input>,
    options?: StartOptions,
  ): Promise<StartedProcess<Responses, Result>>
  /** Creates thousands, all or none, for workers to start. */
  startMany<Input, Responses extends ResponseSchemas, Result>(
    definition: ProcessDefinition<Input, Responses, Result>,
    processes: readonly ProcessToStart<NoInfer<Input>>[],
    options?: StartManyOptions,
  ): Promise<StartedOne[]>
  close(): Promise<void>
}

interface Parts extends Pick<Runtime, 'codec' | 'logger' | 'metrics' | 'missing'> {
  readonly immediate: StarterExecutions
  readonly calls: ProcessCalls
}

export function createProcessClient(
  db: Database,
  { codec, logger, metrics, immediate, calls, missing }: Parts,
): ProcessClient {
  const isLive = presenceIn(db, 'processes')
  const made = ({ name }: ProcessDefinition) => missing.made('processes', name, isLive)
  const starts: Batcher<EncodedStart, StartAnswer> = createBatcher<EncodedStart, StartAnswer>({
    name: 'processes.start',
    key: ({ id, key }) => key ?? id,
    flush: async (encoded) => (await startProcesses(db, encoded, flushStartsStatement)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  return {
    async start(definition, state, options = {}) {
      const process = checkDefinition('start', definition)
      const where = `start ${definition.name}`
      const given = checkOptions(where, options, [...DETAILS, 'immediate', 'transaction'])
      const here =
        booleanOption(where, 'immediate', given.immediate, { default: true }) &&
        options.transaction === undefined &&
        options.startAt === undefined &&
        options.delay === undefined &&
        (await immediate.allowed(process))
      const lending = here ? immediate.lending(process) : undefined
      const encoded = await encodeStart(process, state, options, { codec, where, lending })
      const sentAt = performance.now()
      const answer =
        options.transaction === undefined
          ? await starts.write(encoded)
          : (await startProcesses(db.inside(options.transaction), [encoded]))[0]
      const { id, created, status } = checkAnswer(answer, encoded, process, options.batch)
      const reached =
        answer?.lent && lending && created ? await immediate.run(process, encoded, { ...answer, sentAt }) : status
      if (!hasEnded(reached)) made(process)
      return new StartedProcess(calls, process, id, created)
    },
    async startMany(definition, processes, options) {
      const process = checkDefinition('startMany', definition)
      const encode = (input: unknown, details: StartDetails, where: string) =>
        encodeStart(process, input, details, { codec, where })
      const started = await startAll(db, definition, processes, options, { encode })
      made(process)
      return started
    },
    close: () => starts.close(GIVE_UP_AFTER),
  }
}
