import { type Batcher, createBatcher } from '../kernel/batching/batcher.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Queryable } from '../kernel/database/executor.js'
import { GIVE_UP_AFTER } from '../kernel/database/retrying.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { type MissingWorkers, presenceIn } from '../kernel/results/presence.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions } from '../kernel/validation/options.js'
import { type CommandDefinition, checkCommand } from './define.js'
import type { Domains } from './domains.js'
import { type Envelope, SEND_OPTIONS, sealEnvelope } from './envelope.js'
import { flushSends, type SendOutcome, sendCommands } from './queries/send-commands.js'
import { type PreparedBulk, prepareBulk } from './send-many.js'
import type { SendOptions } from './send-options.js'

/** One of many: its data and what is particular to it. */
export interface CommandToSend<Input> extends Omit<SendOptions, 'transaction'> {
  readonly data: Input
}

export interface SendManyOptions {
  readonly transaction?: Queryable
  readonly batchId?: string
}

export interface CommandClient {
  /** Sends one command (C-01); answers its id. */
  send<Input>(definition: CommandDefinition<Input>, data: NoInfer<Input>, options?: SendOptions): Promise<string>
  /** Sends thousands, all or none; answers their ids in order. */
  sendMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    options?: SendManyOptions,
  ): Promise<string[]>
  /** The same for a transaction of our own, which may be repeated: checked and encoded once, with the same ids. */
  prepareMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    options?: Pick<SendManyOptions, 'batchId'>,
  ): Promise<PreparedBulk>
  close(): Promise<void>
}

const ONE_OF_MANY = ['data', ...SEND_OPTIONS.filter((name) => name !== 'transaction')]

export function createCommandClient(
  db: Database,
  domains: Domains,
  { codec, logger, metrics, missing }: { codec: Codec; logger: Logger; metrics: Metrics; missing: MissingWorkers },
): CommandClient {
  const isLive = presenceIn(db, 'commands')
  const made = ({ domain, type }: CommandDefinition<never>) => missing.made('commands', `${domain}/${type}`, isLive)
  const sends: Batcher<Envelope, SendOutcome> = createBatcher<Envelope, SendOutcome>({
    name: 'commands.send',
    key: (envelope) => `${envelope.domain} ${envelope.commandId}`,
    flush: async (envelopes) => (await flushSends(db, envelopes)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  async function write(envelope: Envelope): Promise<SendOutcome> {
    const outcome = await sends.write(envelope)
    if (outcome !== 'queue gone') return outcome
    // Somebody dropped it since this process made it: made again, once.
    domains.forget(envelope.domain)
    await domains.ready(envelope.domain, { buildIndex: false })
    return sends.write(envelope)
  }

  async function prepareMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    { batchId }: Pick<SendManyOptions, 'batchId'> = {},
  ): Promise<PreparedBulk> {
    if (!Array.isArray(commands) || commands.length === 0) {
      throw invalidOption('sendMany', 'commands', 'must hold at least one command')
    }
    const shared = batchId === undefined ? {} : { batchId }
    const queue = await domains.ready(definition.domain, { buildIndex: false })
    return prepareBulk({
      count: commands.length,
      seal(place) {
        const where = `sendMany ${definition.domain}/${definition.type}: commands[${place}]`
        const command = commands[place]
        checkOptions(where, command, ONE_OF_MANY)
        const { data, ...own } = { ...command, ...shared }
        return sealEnvelope(definition, data, own, { codec, queue, schema: db.schema, where })
      },
      check: (place, envelope, outcome) => checkOutcome(envelope, outcome, { ...commands[place], ...shared }),
    })
  }

  return {
    async send(definition, data, options = {}) {
      checkCommand('send', definition)
      const queue = await domains.ready(definition.domain, { buildIndex: false })
      const where = `send ${definition.domain}/${definition.type}`
      const envelope = await sealEnvelope(definition, data, options, { codec, queue, schema: db.schema, where })
      const outcome =
        options.transaction === undefined
          ? await write(envelope)
          : (await sendCommands(db.inside(options.transaction), [envelope]))[0]
      checkOutcome(envelope, outcome, options)
      made(definition as CommandDefinition<never>)
      return envelope.commandId
    },
    async sendMany(definition, commands, options = {}) {
      checkCommand('sendMany', definition)
      checkOptions('sendMany', options, ['transaction', 'batchId'])
      const { transaction } = options
      const inside = transaction === undefined ? undefined : db.inside(transaction)
      const bulk = await prepareMany(definition, commands, options)
      if (transaction && inside) await withinSavepoint(transaction, () => bulk.send(inside))
      // Repeated, it recognises what an earlier commit has sent.
      else await db.transaction((tx) => bulk.send(tx), { retry: true, idempotent: true })
      made(definition as CommandDefinition<never>)
      return bulk.ids()
    },
    prepareMany,
    close: () => sends.close(GIVE_UP_AFTER),
  }
}

function checkOutcome(envelope: Envelope, outcome: SendOutcome | undefined, options: SendOptions): void {
  const { commandId, domain, ignoreDuplicate } = envelope
  if (outcome === 'sent' || (outcome === 'duplicate' && ignoreDuplicate)) return
  if (outcome === 'reply queue gone') {
    throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: options.replyTo ?? '' })
  }
  if (outcome === 'queue gone') throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: envelope.queue })
  if (outcome === 'batch closed') {
    throw new HoldfastError('HF_BATCH_CLOSED', { batchId: options.batchId ?? '', commandId })
  }
  throw new HoldfastError('HF_DUPLICATE_COMMAND', { commandId, domain })
}

/** All or none also inside a transaction that goes on afterwards. */
async function withinSavepoint(transaction: Queryable, work: () => Promise<void>): Promise<void> {
  await transaction.query('savepoint holdfast_send')
  try {
    await work()
  } catch (error) {
    await transaction.query('rollback to savepoint holdfast_send')
    throw error
  }
  await transaction.query('release savepoint holdfast_send')
}
