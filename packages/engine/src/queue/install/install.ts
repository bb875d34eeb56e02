import type { Database } from '../../kernel/database/database.js'
import type { Transaction } from '../../kernel/database/transaction.js'
import { codeOf } from '../../kernel/database/transient.js'
import { HoldfastError } from '../../kernel/errors.js'
import { type Logger, silentLogger } from '../../kernel/logger.js'
import { execute, settle } from '../../kernel/migrations/apply.js'
import { tryMigrationLock } from '../../kernel/migrations/lock.js'
import { fixSearchPaths } from '../../kernel/migrations/search-path.js'
import { amongOthers } from './contention.js'
import { type PgmqFacts, readFacts } from './facts.js'
import { readPgmqSql } from './pgmq-sql.js'
import { extensionNotPermitted, planInstallation, type QueueInfo, schemaComment } from './plan.js'

export interface InstallOptions {
  readonly logger?: Logger
  /** Milliseconds of an outage after which the installation gives up. */
  readonly patience?: number
}

/** Milliseconds that a statement of the installation waits for a lock before it lets other sessions pass. */
const LOCK_TIMEOUT = 5_000

/**
 * Makes PGMQ available in this database: the server's extension where it has one, else PGMQ's own SQL. It lives in
 * the schema `pgmq`, which all installations of the database share, so any number of them may call this at once. Where
 * PGMQ exists already, nothing is changed.
 *
 * @example
 * const { source, version } = await installQueue(db, { logger })   // { source: 'sql', version: '1.11.1' }
 */
export function installQueue(db: Database, options: InstallOptions = {}): Promise<QueueInfo> {
  const { logger = silentLogger, patience = 60_000 } = options
  const onTrouble = (error: unknown) =>
    logger.warn({ err: error }, 'PGMQ could not be installed now: it is tried again')
  return amongOthers(
    async () => {
      const plan = planInstallation(await readFacts(db))
      if (plan.step === 'refuse') throw plan.error
      if (plan.step === 'use') return plan.info
      const done = await installUnderLock(db)
      if (done) logger.info({ schema: 'pgmq', step: done }, 'PGMQ was installed')
      return undefined
    },
    { patience, onTrouble },
  )
}

/**
 * Which PGMQ this database has; an error says what is missing if it has none that we can use.
 *
 * @example
 * const { source, version } = await queueInfo(db)   // { source: 'extension', version: '1.5.1' }
 */
export async function queueInfo(db: Database): Promise<QueueInfo> {
  const facts = await readFacts(db)
  const plan = planInstallation(facts)
  if (plan.step === 'use') return plan.info
  if (plan.step === 'refuse') throw plan.error
  throw new HoldfastError('HF_QUEUE_UNAVAILABLE', { problem: `the database "${facts.database}" does not have it yet` })
}

/** What was done; undefined while another instance installs. Decided again under the lock, so that nothing changes meanwhile. */
function installUnderLock(db: Database): Promise<string | undefined> {
  return db.transaction(async (tx) => {
    await settle(tx, LOCK_TIMEOUT)
    if (!(await tryMigrationLock(tx, 'pgmq'))) return undefined
    const facts = await readFacts(tx)
    const plan = planInstallation(facts)
    if (plan.step === 'create extension') await createExtension(tx, facts)
    else if (plan.step === 'install sql') await installSql(tx, plan.createSchema)
    else return undefined
    return plan.step
  })
}

async function createExtension(tx: Transaction, facts: PgmqFacts): Promise<void> {
  try {
    await tx.query('create extension pgmq', undefined, 0)
  } catch (error) {
    // What a role may do with an extension depends on what is in its script, and on rules of cloud vendors.
    if (codeOf(error) === '42501') throw extensionNotPermitted(facts, error)
    throw error
  }
}

async function installSql(tx: Transaction, createSchema: boolean): Promise<void> {
  const { version, text } = await readPgmqSql()
  if (createSchema) await tx.query('create schema pgmq')
  await execute('pgmq', text, (sql) => tx.query(sql, undefined, 0))
  // PGMQ qualifies its own names but trusts the caller's path for operators and casts. An extension's functions are the
  // extension's; what we install ourselves is ours to make safe.
  await fixSearchPaths(tx, 'pgmq')
  await tx.query(`comment on schema pgmq is '${schemaComment(version)}'`)
}
