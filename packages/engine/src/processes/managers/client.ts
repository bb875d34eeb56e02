import type { Outgoing } from '../../commands/index.js'
import { type Batcher, createBatcher } from '../../kernel/batching/batcher.js'
import type { Codec } from '../../kernel/codec/codec.js'
import type { Database } from '../../kernel/database/database.js'
import type { Queryable } from '../../kernel/database/executor.js'
import { GIVE_UP_AFTER } from '../../kernel/database/retrying.js'
import { splitName } from '../../kernel/ids/name.js'
import type { Logger } from '../../kernel/logger.js'
import type { Metrics } from '../../kernel/metrics/metrics.js'
import type { Reports } from '../../kernel/reports/reports.js'
import { type MissingWorkers, presenceIn } from '../../kernel/results/presence.js'
import { checkOptions } from '../../kernel/validation/options.js'
import { checkAnswer } from '../client.js'
import { type ProcessCalls, StartedProcess } from '../handle.js'
import { flushManagedStarts, startManaged } from '../queries/start-managed.js'
import type { StartAnswer } from '../queries/start-processes.js'
import type { ManagerDefinition } from './define.js'
import { forgetGone, refusalIn, toRefusedError } from './refused-command.js'
import { type ManagerStartDetails, type SealedManagedStart, sealManagedStart } from './seal-start.js'

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
  close(): Promise<void>
}

interface Parts {
  readonly codec: Codec
  readonly outgoing: Outgoing
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
  readonly missing: MissingWorkers
  readonly calls: ProcessCalls
}

const KNOWN_OPTIONS = ['id', 'key', 'deadline', 'attributes', 'batch', 'transaction'] as const

export function createManagerClient(
  db: Database,
  { codec, outgoing, logger, metrics, reports, missing, calls }: Parts,
): ManagerClient {
  const isLive = presenceIn(db, 'processes')
  const starts: Batcher<SealedManagedStart, StartAnswer> = createBatcher<SealedManagedStart, StartAnswer>({
    name: 'processes.start-managed',
    key: ({ id, key }) => key ?? id,
    flush: async (sealed) => (await flushManagedStarts(db, sealed)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  async function write(sealed: SealedManagedStart, transaction: Queryable | undefined) {
    return transaction === undefined ? starts.write(sealed) : (await startManaged(db.inside(transaction), [sealed]))[0]
  }

  return {
    async start(definition, state, options = {}) {
      const manager = definition as ManagerDefinition
      const where = `start ${definition.name}`
      checkOptions(where, options, KNOWN_OPTIONS)
      for (let attempt = 1; ; attempt += 1) {
        const sealed = await sealManagedStart(manager, state, options, { codec, outgoing, where })
        try {
          const answer = await write(sealed, options.transaction)
          const { id, created } = checkAnswer(answer, sealed, manager, options.batch)
          if (created && options.transaction === undefined)
            reports.started({ model: 'processes', ...splitName(manager.name) })
          missing.made('processes', manager.name, isLive)
          return new StartedProcess(calls, manager, id, created)
        } catch (error) {
          const refusal = refusalIn(error)
          if (refusal === undefined || !sealed.envelope) throw error
          // A queue that was dropped is created again, once; inside a transaction that has failed nothing helps.
          const again =
            forgetGone(outgoing, refusal, sealed.envelope, manager.domain) && options.transaction === undefined
          if (!again || attempt > 1) throw toRefusedError(refusal, sealed.envelope)
        }
      }
    },
    close: () => starts.close(GIVE_UP_AFTER),
  }
}
