// Starts step-based processes for applications: the process and its first command in one transaction. `holdfast.ts` exposes it. A
// second start with the same key must return the first process and send nothing.

import type { Outgoing } from '../../commands/index.js'
import { splitName } from '../../kernel/ids/name.js'
import {
  type Batcher,
  createBatcher,
  GIVE_UP_AFTER,
  presenceIn,
  type Queryable,
  type Runtime,
  type StartedOne,
} from '../../kernel/model/index.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { checkOptions } from '../../kernel/validation/options.js'
import { type ProcessCalls, StartedProcess } from '../handle.js'
import {
  flushManagedStatement,
  type StartAnswer,
  startManagedStatement,
  startProcesses,
} from '../queries/start-processes.js'
import { checkAnswer, type ProcessToStart, type StartManyOptions, startAll } from '../start-many.js'
import { definedManager, type ManagerDefinition } from './define.js'
import { type EncodedManagedStart, encodeManagedStart, type ManagerStartDetails } from './encode-start.js'
import { forgetGone, refusalIn, toRefusedError } from './refused-command.js'

export interface ManagerStartOptions extends ManagerStartDetails {
  /** Your own transaction: the process is created and its first command sent in it. */
  readonly transaction?: Queryable
}

export interface ManagerClient {
  /** Starts a step-based process: it and its first command, in one transaction. */
  start<Input>(
    definition: ManagerDefinition<Input>,
    state: NoInfer<Input>,
    options?: ManagerStartOptions,
  ): Promise<StartedProcess<Record<never, never>>>
  /** Starts thousands with their first commands, all or none. */
  startMany<Input>(
    definition: ManagerDefinition<Input>,
    processes: readonly ProcessToStart<NoInfer<Input>>[],
    options?: StartManyOptions,
  ): Promise<StartedOne[]>
  close(): Promise<void>
}

interface Parts extends Pick<Runtime, 'db' | 'codec' | 'logger' | 'metrics' | 'reports' | 'missing'> {
  readonly outgoing: Outgoing
  readonly calls: ProcessCalls
}

const KNOWN_OPTIONS = ['id', 'key', 'startAt', 'delay', 'deadline', 'attributes', 'batch', 'transaction'] as const

export function createManagerClient(parts: Parts): ManagerClient {
  const { db, codec, outgoing, logger, metrics, reports, missing, calls } = parts
  const isLive = presenceIn(db, 'processes')
  const starts: Batcher<EncodedManagedStart, StartAnswer> = createBatcher<EncodedManagedStart, StartAnswer>({
    name: 'processes.start-managed',
    key: ({ id, key }) => key ?? id,
    flush: async (batch) => (await startProcesses(db, batch, flushManagedStatement)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  async function write(encoded: EncodedManagedStart, transaction: Queryable | undefined) {
    if (transaction === undefined) return starts.write(encoded)
    return (await startProcesses(db.inside(transaction), [encoded], startManagedStatement))[0]
  }

  return {
    async start(definition, state, options = {}) {
      const manager = definedManager(definition)
      if (!manager) throw invalidOption('start', 'definition', 'must be made with defineManager')
      const where = `start ${manager.name}`
      checkOptions(where, options, KNOWN_OPTIONS)
      for (let attempt = 1; ; attempt += 1) {
        const encoded = await encodeManagedStart(manager, state, options, { codec, outgoing, where })
        try {
          const answer = await write(encoded, options.transaction)
          const { id, created } = checkAnswer(answer, encoded, manager, options.batch)
          if (created && options.transaction === undefined)
            reports.started({ model: 'processes', ...splitName(manager.name) })
          missing.made('processes', manager.name, isLive)
          return new StartedProcess(calls, manager, id, created)
        } catch (error) {
          const refusal = refusalIn(error)
          if (refusal === undefined || !encoded.envelope) throw error
          // A queue that was dropped is created again, once; inside a transaction that has failed nothing helps.
          const again =
            forgetGone(outgoing, refusal, encoded.envelope, manager.domain) && options.transaction === undefined
          if (!again || attempt > 1) throw toRefusedError(refusal, encoded.envelope)
        }
      }
    },
    async startMany(definition, processes, options) {
      const manager = definedManager(definition)
      if (!manager) throw invalidOption('startMany', 'definition', 'must be made with defineManager')
      let envelope: EncodedManagedStart['envelope']
      const encode = async (input: unknown, details: ManagerStartDetails, where: string) => {
        const encoded = await encodeManagedStart(manager, input, details, { codec, outgoing, where })
        envelope ??= encoded.envelope
        return encoded
      }
      const by = { encode, statement: startManagedStatement }
      const started = await startAll(db, manager, processes, options, by).catch((error: unknown) => {
        const refusal = refusalIn(error)
        throw refusal === undefined || !envelope ? error : toRefusedError(refusal, envelope)
      })
      missing.made('processes', manager.name, isLive)
      return started
    },
    close: () => starts.close(GIVE_UP_AFTER),
  }
}
