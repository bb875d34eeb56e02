import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import { derivedId } from '../kernel/ids/derived-id.js'
import { newId, parseId } from '../kernel/ids/id.js'
import { type Database, type Executor, GIVE_UP_AFTER, uuid, withDatabaseRetry } from '../kernel/model/index.js'
import { createBackoff } from '../kernel/retry/backoff.js'
import { anything, choice, declareOptions, integer, text } from '../kernel/validation/declared.js'
import { BATCH_STATUSES, type Batch, type BatchStatus } from './batch.js'
import type { CommandClient, CommandToSend } from './client.js'
import { type CommandDefinition, checkCommand } from './define.js'
import type { Domains } from './domains.js'
import { findBatches } from './queries/find-batches.js'

export interface CreateBatchOptions {
  /** Your own id: an id that exists already is refused. Default: a new one. */
  readonly id?: string
  readonly name?: string
  /** Your own data about the batch; `onComplete` gets it. */
  readonly data?: unknown
  /** A command that is sent once when the batch has closed, with its counts as data. */
  readonly onComplete?: CommandDefinition<BatchSummary>
}

/** The data of the command `onComplete`. */
export interface BatchSummary {
  readonly batchId: string
  readonly name: string | null
  readonly data: unknown
  readonly status: BatchStatus
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
}

export interface Batches {
  /** Creates a batch with these commands: it closes when all of them have ended. */
  create<Input>(
    definition: CommandDefinition<Input>,
    commands: readonly CommandToSend<NoInfer<Input>>[],
    options?: CreateBatchOptions,
  ): Promise<string>
  /** Creates an empty batch of a domain; `send(…, { batch })` adds commands until it is sealed. */
  open(domain: string, options?: CreateBatchOptions): Promise<string>
  /** Seals a batch: it accepts no more commands, and closes when all its commands have ended. */
  seal(batchId: string): Promise<void>
  get(batchId: string): Promise<Batch>
  list(filter?: { readonly domain?: string; readonly status?: BatchStatus; readonly limit?: number }): Promise<Batch[]>
}

export function createBatches(db: Database, client: CommandClient, domains: Domains, codec: Codec): Batches {
  async function prepare(domain: string, options: CreateBatchOptions) {
    const { id: batchId = newId(), name = null } = checkNewBatch('batch', options)
    const { onComplete } = options
    await domains.ready(domain, { buildIndex: false })
    if (onComplete !== undefined) checkCommand('batch: onComplete', onComplete)
    const callback = onComplete && {
      queue: await domains.ready(onComplete.domain, { buildIndex: false }),
      domain: onComplete.domain,
      type: onComplete.type,
      version: onComplete.version,
      command_id: derivedId('batch completed', batchId),
      correlation_id: batchId,
      token: newId(),
    }
    const { json, notes } = codec.encode(options.data ?? null)
    const row = [
      batchId,
      domain,
      name,
      json,
      notes === null ? null : JSON.stringify(notes),
      callback ? JSON.stringify(callback) : null,
      // A repeated statement recognises by it the batch that it has created already.
      newId(),
    ]
    return { batchId, row }
  }

  async function insert(executor: Executor, { batchId, row }: Awaited<ReturnType<typeof prepare>>): Promise<string> {
    const [made] = await executor.run(insertStatement, row)
    if (!made) throw new HoldfastError('HF_DUPLICATE_BATCH', { batchId })
    return batchId
  }

  async function seal(executor: Executor, batchId: string): Promise<void> {
    const id = parseId('batch: batchId', batchId)
    const [row] = await executor.run(sealStatement, [id])
    if (!row) throw new HoldfastError('HF_UNKNOWN_BATCH', { batchId: id })
  }

  return {
    async create(definition, commands, options = {}) {
      const batch = await prepare(definition.domain, options)
      const bulk = await client.prepareMany(definition, commands, { batch: batch.batchId })
      // One transaction: a batch that was created and never sealed would stay open for ever.
      return db.transaction(
        async (transaction) => {
          await insert(transaction, batch)
          await bulk.send(transaction)
          await seal(transaction, batch.batchId)
          return batch.batchId
        },
        { retry: true, idempotent: true },
      )
    },
    async open(domain, options = {}) {
      const batch = await prepare(domain, options)
      return throughTrouble('batches.open', () => insert(db, batch))
    },
    seal: (batchId) => throughTrouble('batches.seal', () => seal(db, batchId)),
    async get(batchId) {
      const id = parseId('batch: batchId', batchId)
      const [batch] = await findBatches(db, codec, { batchId: id, limit: 1 })
      if (!batch) throw new HoldfastError('HF_UNKNOWN_BATCH', { batchId: id })
      return batch
    },
    async list(filter) {
      return findBatches(db, codec, checkFilter('batches.list', filter))
    },
  }
}

const checkNewBatch = declareOptions({ id: uuid, name: text({ max: 500 }), data: anything, onComplete: anything })
const checkFilter = declareOptions({
  domain: text(),
  status: choice(BATCH_STATUSES),
  limit: integer({ min: 1, default: 100 }),
})

/** Both recognise their own earlier success, so they are repeated while the database is unreachable. */
function throughTrouble<T>(name: string, operation: () => Promise<T>): Promise<T> {
  const backoff = createBackoff({ base: 10, cap: 1_000 })
  return withDatabaseRetry(operation, { name, idempotent: true, giveUpAfter: GIVE_UP_AFTER, backoff })
}

const insertStatement = {
  name: 'batches.insert',
  text: `
    with made as (
      insert into holdfast.batch (batch_id, domain, name, data, notes, on_complete, create_token, sealed, created_at)
      values ($1, $2, $3, $4::jsonb, $5::jsonb, $6::jsonb, $7, false, holdfast.now())
      on conflict (batch_id) do nothing
      returning batch_id
    )
    select batch_id from made
    union all
    select batch_id from holdfast.batch where batch_id = $1 and create_token = $7`,
}

// Locked for update, which waits for senders that are adding to it and makes later ones see that it is sealed. The
// tally makes a worker check the batch, also when it is empty or all its items have ended already.
const sealStatement = {
  name: 'batches.seal',
  text: `
    with locked as (
      select batch_id from holdfast.batch where batch_id = $1 for update
    ),
    sealed as (
      update holdfast.batch set sealed = true
      from locked
      where batch.batch_id = locked.batch_id
      returning batch.batch_id
    ),
    due as (
      insert into holdfast.batch_tally (batch_id, due_at) select batch_id, holdfast.now() from sealed
    )
    select batch_id, holdfast.wake('batches') from sealed`,
}
