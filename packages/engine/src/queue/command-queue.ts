import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../kernel/database/database.js'
import type { DirectConnection } from '../kernel/database/direct.js'
import type { Executor } from '../kernel/database/executor.js'
import { quoteIdentifier } from '../kernel/database/schema-name.js'
import { codeOf } from '../kernel/database/transient.js'
import { HoldfastError } from '../kernel/errors.js'
import { settle } from '../kernel/migrations/apply.js'
import { tryMigrationLock } from '../kernel/migrations/lock.js'
import { createQueue, once, PATIENCE } from './ensure-queue.js'
import { amongOthers } from './install/contention.js'

export interface CommandQueueOptions {
  /**
   * Build the index if the queue exists without it (default). A sender passes false: the build waits for every
   * transaction that is older, and one of them may be the sender's own.
   */
  readonly buildIndex?: boolean
}

interface QueueState {
  readonly exists: boolean
  readonly index: 'valid' | 'building' | 'broken' | null
}

/** Milliseconds to wait for a table lock before other sessions are let pass. */
const LOCK_TIMEOUT = 5_000

/**
 * Makes a queue for commands: PGMQ's own tables and one index of ours, by which claims find the messages of a type in
 * the order in which they become visible. Asks the database once per process.
 *
 * @example
 * await ensureCommandQueue(db, commandQueueFor(db.schema, 'payments'))
 */
export async function ensureCommandQueue(
  db: Database,
  queue: string,
  { buildIndex = true }: CommandQueueOptions = {},
): Promise<void> {
  const makeOnce = () =>
    amongOthers(
      async () => {
        const state = await readState(db, queue)
        if (state.index === 'valid' || (state.exists && !buildIndex)) return true as const
        await (state.exists ? buildUnderLock(db, queue) : createUnderLock(db, queue))
        return undefined
      },
      { patience: PATIENCE },
    )
  await once(db, `${queue} ${buildIndex ? 'with' : 'or without'} index`, makeOnce)
}

/** A queue that no other session sees yet gets its index in the same transaction, so that no session waits. */
async function createUnderLock(db: Database, queue: string): Promise<void> {
  await db.transaction(async (tx) => {
    await settle(tx, LOCK_TIMEOUT)
    if (!(await tryMigrationLock(tx, `pgmq.q_${queue}`))) return
    if ((await readState(tx, queue)).exists) return
    await createQueue(tx, queue)
    await tx.query(`create index if not exists ${definition(queue)}`)
    await tx.query(trimming(queue))
  })
}

/**
 * A queue in use gets it concurrently. The lock keeps a second builder away, which would wait for our build with a
 * snapshot that our build in turn waits for.
 */
async function buildUnderLock(db: Database, queue: string): Promise<void> {
  await db.transaction(async (tx) => {
    await settle(tx, 0)
    if (!(await tryMigrationLock(tx, `pgmq.q_${queue}`))) return
    // A query with parameters leaves its portal, and with it a snapshot, open until the next command of the transaction.
    await tx.query('select')
    const builder = await db.connect()
    try {
      await build(builder, queue)
    } catch (error) {
      throw codeOf(error) === '42501' ? mayNotIndex(queue, error) : error
    } finally {
      await builder.close()
    }
  })
}

async function build(builder: DirectConnection, queue: string): Promise<void> {
  // A role's statement_timeout would end the build. Through a pooler the setting would stay behind for strangers.
  if (!(await builder.isPooled())) await builder.query('set statement_timeout = 0; set lock_timeout = 0')
  // `if not exists` would take what an interrupted build has left behind for an index.
  let { index } = await readState(builder, queue)
  while (index === 'building') {
    await sleep(500)
    index = (await readState(builder, queue)).index
  }
  if (index === 'broken')
    await builder.query(`drop index concurrently if exists pgmq.${quoteIdentifier(indexName(queue))}`, [], 0)
  await builder.query(`create index concurrently if not exists ${definition(queue)}`, undefined, 0)
}

async function readState(executor: Executor, queue: string): Promise<QueueState> {
  const [state] = await executor.run<QueueState>(readStateStatement, [`q_${queue}`, indexName(queue)])
  return state ?? { exists: false, index: null }
}

const readStateStatement = {
  name: 'queue.read command queue',
  text: `
    select
      true as exists,
      case
        when index.indisvalid then 'valid'
        when index.indexrelid is null then null
        when exists (
          select from pg_catalog.pg_stat_progress_create_index progress where progress.index_relid = index.indexrelid
        ) then 'building'
        else 'broken'
      end as index
    from pg_catalog.pg_class queue
    join pg_catalog.pg_namespace namespace on namespace.oid = queue.relnamespace
    left join (pg_catalog.pg_index index join pg_catalog.pg_class class on class.oid = index.indexrelid)
      on index.indrelid = queue.oid and class.relname = $2
    where namespace.nspname = 'pgmq'
      and queue.relname = $1
      and queue.relkind in ('r', 'p')`,
}

function indexName(queue: string): string {
  return `q_${queue}_hf_type_idx`
}

function definition(queue: string): string {
  const table = `pgmq.${quoteIdentifier(`q_${queue}`)}`
  return `${quoteIdentifier(indexName(queue))} on ${table} ((message ->> 'command_type'::text), vt)`
}

/**
 * A message is written again when it is received, so half of each page is left for that: the new version stays on its
 * page, which saves a sixth of the WAL. PGMQ's own index on `vt` only costs: nothing of PGMQ can use it, because it
 * compares `vt` with the volatile clock_timestamp().
 */
function trimming(queue: string): string {
  const table = `pgmq.${quoteIdentifier(`q_${queue}`)}`
  return `
    alter table ${table} set (fillfactor = 50);
    drop index if exists pgmq.${quoteIdentifier(`q_${queue}_vt_idx`)}`
}

function mayNotIndex(queue: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    'HF_NOT_PERMITTED',
    {
      operation: `index the queue \`${queue}\``,
      problem: 'it belongs to another role',
      remedy: `Its owner can run: create index concurrently if not exists ${definition(queue)};`,
    },
    { cause },
  )
}
