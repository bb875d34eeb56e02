import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import {
  type Batcher,
  checkMany,
  createBatcher,
  type Database,
  GIVE_UP_AFTER,
  type Logger,
  type Metrics,
  type MissingWorkers,
  presenceIn,
  type Queryable,
} from '../kernel/model/index.js'
import { checkOptions } from '../kernel/validation/options.js'
import type { CommandCalls } from './calls.js'
import { type CommandDefinition, checkCommand } from './define.js'
import type { Domains } from './domains.js'
import { type Envelope, encodeEnvelope, SEND_OPTIONS } from './envelope.js'
import { CommandHandle, SentCommand } from './handle.js'
import { flushSends, type SendOutcome, sendCommands } from './queries/send-commands.js'
import { type CommandOf, checkCommandOf, commandIdOf } from './reference.js'
import { type PreparedBulk, prepareBulk, type Sent } from './send-many.js'
import type { SendOptions } from './send-options.js'

/** One of many commands: its data and its own options. */
export interface CommandToSend<Input> extends Omit<SendOptions, 'transaction'> {
  readonly data: Input
}

export interface SendManyOptions {
  readonly transaction?: Queryable
  /** The id of an open batch that all of them belong to. */
  readonly batch?: string
}

export interface CommandClient {
  /** Sends one command. */
  send<Input, Data, Result>(
    definition: CommandDefinition<Input, Data, Result>,
    data: NoInfer<Input>,
    options?: SendOptions,
  ): Promise<SentCommand<Input, Result>>
  /** Sends thousands, all or none; returns their ids in order. */
  sendMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    options?: SendManyOptions,
  ): Promise<Sent[]>
  /** A handle of one command, by its id or key. Costs no query. */
  command<Input, Result>(command: CommandOf<Input, Result>, idOrKey: string): CommandHandle<Input, Result>
  /** The same for a transaction of our own, which may be repeated: checked and encoded once, with the same ids. */
  prepareMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    options?: Pick<SendManyOptions, 'batch'>,
  ): Promise<PreparedBulk>
  readonly close: () => Promise<void>
}

const ONE_OF_MANY = ['data', ...SEND_OPTIONS.filter((name) => name !== 'transaction')]

export function createCommandClient(
  db: Database,
  domains: Domains,
  {
    calls,
    codec,
    logger,
    metrics,
    missing,
  }: { calls: CommandCalls; codec: Codec; logger: Logger; metrics: Metrics; missing: MissingWorkers },
): CommandClient {
  const isLive = presenceIn(db, 'commands')
  const made = ({ name }: { readonly name: string }) => missing.made('commands', name, isLive)
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
    // It was dropped since this process created it: created again, once.
    domains.forget(envelope.domain)
    await domains.ready(envelope.domain, { buildIndex: false })
    return sends.write(envelope)
  }

  async function prepareMany<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    { batch }: Pick<SendManyOptions, 'batch'> = {},
  ): Promise<PreparedBulk> {
    checkMany('sendMany', 'commands', commands)
    const defined = checkCommand('sendMany', definition)
    const shared = batch === undefined ? {} : { batch }
    const queue = await domains.ready(definition.domain, { buildIndex: false })
    return prepareBulk({
      count: commands.length,
      encode(place) {
        const where = `sendMany ${definition.domain}/${definition.type}: commands[${place}]`
        const command = commands[place]
        checkOptions(where, command, ONE_OF_MANY)
        const { data, ...own } = { ...command, ...shared }
        return encodeEnvelope(defined, data, own, { codec, queue, schema: db.schema, where })
      },
      check: (place, envelope, outcome) => wasSent(envelope, outcome, { ...commands[place], ...shared }),
    })
  }

  return {
    async send(definition, data, options = {}) {
      const defined = checkCommand('send', definition)
      const queue = await domains.ready(definition.domain, { buildIndex: false })
      const where = `send ${definition.domain}/${definition.type}`
      const envelope = await encodeEnvelope(defined, data, options, { codec, queue, schema: db.schema, where })
      const outcome =
        options.transaction === undefined
          ? await write(envelope)
          : (await sendCommands(db.inside(options.transaction), [envelope]))[0]
      const created = wasSent(envelope, outcome, options)
      made(definition)
      return new SentCommand(calls, definition, envelope.commandId, created)
    },
    async sendMany(definition, commands, options = {}) {
      checkOptions('sendMany', options, ['transaction', 'batch'])
      const { transaction } = options
      const inside = transaction === undefined ? undefined : db.inside(transaction)
      const bulk = await prepareMany(definition, commands, options)
      const sent =
        transaction && inside
          ? await withinSavepoint(transaction, () => bulk.send(inside))
          : // Repeated, it recognises what an earlier commit has sent.
            await db.transaction((tx) => bulk.send(tx), { retry: true, idempotent: true })
      made(definition)
      return sent
    },
    command(command, idOrKey) {
      checkCommandOf('command', command)
      return new CommandHandle(calls, command, commandIdOf('command', command, idOrKey))
    },
    prepareMany,
    close: () => sends.close(GIVE_UP_AFTER),
  }
}

/** Whether a command was sent now. False: it exists already, which is allowed here. Throws if it was refused. */
function wasSent(envelope: Envelope, outcome: SendOutcome | undefined, options: SendOptions): boolean {
  const { commandId, domain, type, ignoreDuplicate } = envelope
  const work = { model: 'commands', domain, type, id: commandId } as const
  if (outcome === 'sent') return true
  if (outcome === 'duplicate' && ignoreDuplicate) return false
  if (outcome === 'reply queue gone') {
    throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: options.replyTo ?? '' })
  }
  if (outcome === 'queue gone') throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: envelope.queue })
  if (outcome === 'batch closed') {
    throw new HoldfastError('HF_BATCH_CLOSED', { ...work, batchId: options.batch ?? '' })
  }
  throw new HoldfastError('HF_DUPLICATE_COMMAND', work)
}

/** All or none, also inside a transaction that the caller continues. */
async function withinSavepoint<T>(transaction: Queryable, work: () => Promise<T>): Promise<T> {
  await transaction.query('savepoint holdfast_send')
  let done: T
  try {
    done = await work()
  } catch (error) {
    await transaction.query('rollback to savepoint holdfast_send')
    throw error
  }
  await transaction.query('release savepoint holdfast_send')
  return done
}
