import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { HoldfastError } from '../errors.js'
import { createBackoff } from '../retry/backoff.js'
import { insideCaller } from './caller.js'
import { type Checkout, createCheckout } from './checkout.js'
import type { Database } from './database.js'
import { createDirectConnections } from './direct.js'
import type { DriverPool } from './driver.js'
import type { Executor, Statement } from './executor.js'
import { type CheckedOptions, checkDatabaseOptions, type DatabaseOptions } from './options.js'
import { preparedStatements } from './prepared.js'
import { schemaNaming } from './schema-name.js'
import { createSession, type Session } from './session.js'
import { connectionConfig, targetOf, targetOfPool } from './target.js'
import { runTransaction } from './transaction.js'
import { codeOf, isTransient } from './transient.js'

const OLDEST_VERSION = 140_000
/** Connections for claims and heartbeats, besides the pool. They are opened when a worker first needs them. */
const RESERVED = 3

/**
 * Connects to PostgreSQL, checks that it is there and new enough, and gives the one object through which the engine
 * talks to it. If that fails, everything is closed again.
 *
 * @example
 * const db = await openDatabase({ connectionString: 'postgres://app@localhost/shop' })
 * const rows = await db.run({ name: 'read clock', text: 'select shift from holdfast.clock' })
 * await db.close()
 */
export async function openDatabase(options: DatabaseOptions = {}): Promise<Database> {
  const checked = checkDatabaseOptions(options)
  const { schema, prepare, poolSize, statementTimeout, applicationName, logger } = checked
  const sql = schemaNaming(schema)
  const target = options.pool ? targetOfPool(options.pool) : targetOf(options.connectionString)
  const { directConnectionString } = options
  const directTarget = directConnectionString === undefined ? target : targetOf(directConnectionString)
  const pool = options.pool ?? ownPool({ ...connectionConfig(target, applicationName), max: poolSize })
  const prepared = preparedStatements(prepare, logger)
  const session = createSession({ sql, prepared, statementTimeout, faults: options.faults })
  const checkout = createCheckout(pool, target.label, options.pool ? sizeOf(options.pool) : poolSize)
  const reservedPool = ownPool({ ...connectionConfig(target, applicationName), max: RESERVED })
  const reserved = createCheckout(reservedPool, target.label, RESERVED)
  const direct = createDirectConnections(directTarget, connectionConfig(directTarget, applicationName), session)

  // A connection that breaks while it lies idle in the pool; the pool has replaced it when we hear of it. Its error is
  // not logged whole: `pg` hangs the client on it, and with that the password.
  const onIdleError = (error: Error) =>
    logger.debug({ code: codeOf(error), problem: error.message }, 'an idle connection to PostgreSQL was lost')
  pool.on('error', onIdleError)
  reservedPool.on('error', onIdleError)
  let closing: Promise<void> | undefined
  async function closeAll(): Promise<void> {
    await Promise.all([checkout.close(), reserved.close(), direct.closeAll()])
    await reservedPool.end()
    // Our own pool keeps its listener: it says that it has ended before its last connection is really closed, and a
    // server that goes down in that moment would end the process.
    if (options.pool) pool.removeListener('error', onIdleError)
    else await pool.end()
  }
  const close = () => {
    closing ??= closeAll()
    return closing
  }

  try {
    await whenReady(() => checkVersion(checkout, session), checked)
  } catch (error) {
    await close()
    throw error
  }
  const runOn =
    (lender: Checkout): Executor['run'] =>
    async <Row extends object>(statement: Statement, params?: readonly unknown[]) =>
      lender.lend(async (connection) => (await session.run(connection, 'alone', statement, params)) as Row[])
  return {
    schema,
    target: target.label,
    sql,
    run: runOn(checkout),
    reserved: { run: runOn(reserved) },
    transaction: (work, transactionOptions = {}) => runTransaction(checkout, session, work, transactionOptions),
    inside: (caller) => insideCaller(caller, session),
    connect: () => direct.open(),
    close,
  }
}

/** Errors of a server that is starting and will accept connections a little later. */
const NOT_READY = new Set(['57P03', '57P01', '57P02', '53300'])

/** How a connection ends that had been accepted: the server is being restarted; the address is not wrong. */
const DROPPED = /^Connection terminated unexpectedly$|ECONNRESET/

/**
 * Repeats the first statement while the server starts up, recovers or is being restarted; what is wrong for good is an error at
 * once.
 */
async function whenReady(operation: () => Promise<void>, options: CheckedOptions): Promise<void> {
  const { connectTimeout, waitForServer, logger } = options
  const backoff = createBackoff({ base: 50, cap: 2_000 })
  const began = performance.now()
  let isThere = waitForServer
  for (;;) {
    try {
      return await operation()
    } catch (error) {
      const cause = error instanceof HoldfastError ? error.cause : error
      const delay = backoff.next()
      isThere ||= NOT_READY.has(codeOf(cause)) || (cause instanceof Error && DROPPED.test(cause.message))
      const mayPass = isThere && (NOT_READY.has(codeOf(cause)) || isTransient(error))
      if (!mayPass || performance.now() - began + delay > connectTimeout) throw error
      logger.info({ code: codeOf(cause) }, 'PostgreSQL does not take connections yet: waiting for it')
      await sleep(delay)
    }
  }
}

async function checkVersion(checkout: Checkout, session: Session): Promise<void> {
  const text =
    "select pg_catalog.current_setting('server_version') version, pg_catalog.current_setting('server_version_num')::int number"
  const { rows } = await checkout.lend((connection) => session.send(connection, 'check version', text))
  const [{ version, number }] = rows as [{ version: string; number: number }]
  if (number < OLDEST_VERSION) throw new HoldfastError('HF_DATABASE_TOO_OLD', { version })
  session.serverVersion(number)
}

/** How many connections a user's pool may open; 10 is the default of `pg`. */
function sizeOf({ options }: DriverPool): number {
  return 'max' in options && typeof options.max === 'number' ? options.max : 10
}

function ownPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config)
  // A server that ends a connection as it accepts it: the pool has released the client, its
  // borrower does not have it yet, and without a listener the error would end the process.
  pool.on('connect', (client) => void client.on('error', () => undefined))
  return pool
}
