import { randomBytes } from 'node:crypto'
import { databaseFromEnvironment } from '@holdfast/embedded'
import { installQueue, migrate, openDatabase } from 'holdfast/internal'
import pg from 'pg'

/** The server of this test run, for the programs that it starts: test files and their worker processes. */
const SERVER_VARIABLE = 'HOLDFAST_TEST_SERVER'
/** Begins the name of every database of this run, so that its end removes only what it made. */
const PREFIX_VARIABLE = 'HOLDFAST_TEST_PREFIX'

/**
 * Starts the PostgreSQL of a test run (or takes that of DATABASE_URL), with a migrated template database that
 * `testDatabase` clones. Call it once per run, in the global setup of your test runner, and the function that it returns at the end;
 * without it every test process starts a server of its own.
 *
 * @example
 * // vitest.config.ts: test: { globalSetup: ['@holdfast/testing/setup'] }
 */
export async function startTestServer(): Promise<() => Promise<void>> {
  const server = await databaseFromEnvironment({ ephemeral: true, settings: { max_connections: '800' } })
  const prefix = `hf_test_${process.pid}_${randomBytes(3).toString('hex')}`
  process.env[SERVER_VARIABLE] = server.connectionString
  process.env[PREFIX_VARIABLE] = prefix
  await onServer((client) => client.query(`create database ${templateName()}`))
  const db = await openDatabase({ connectionString: connectionStringOf(templateName()), poolSize: 2 })
  await migrate(db)
  await installQueue(db)
  await db.close()
  return async () => {
    delete process.env[SERVER_VARIABLE]
    delete process.env[PREFIX_VARIABLE]
    await dropAll(server.connectionString, prefix)
    await server.stop()
  }
}

let ownServer: Promise<void> | undefined

/** The server of the run, or one of this process if none was started; that one ends with the process. */
async function ensureServer(): Promise<void> {
  if (process.env[SERVER_VARIABLE]) return
  ownServer ??= startTestServer().then((stop) => {
    // On a server of the user's the databases would stay. A program that exits at once leaves them; the README says so.
    process.once('beforeExit', () => void stop())
  })
  await ownServer
}

/** A database of a test's own. */
export interface TestDatabase {
  readonly name: string
  readonly connectionString: string
}

/**
 * A database of its own for a test or a test file, migrated unless asked to be empty. It goes with the run, or when you
 * drop it.
 *
 * @example
 * const { connectionString } = await testDatabase()
 */
export async function testDatabase(
  options: { readonly empty?: boolean; readonly like?: TestDatabase } = {},
): Promise<TestDatabase> {
  await ensureServer()
  const name = `${runPrefix()}_${randomBytes(4).toString('hex')}`
  const template = options.empty ? 'template0' : (options.like?.name ?? templateName())
  await onServer((client) => client.query(`create database ${name} template ${template}`))
  return { name, connectionString: connectionStringOf(name) }
}

/** Removes a test's database, and ends the connections to it. */
export async function dropTestDatabase({ name }: TestDatabase): Promise<void> {
  await onServer((client) => client.query(`drop database if exists ${name} with (force)`))
}

export function connectionStringOf(database: string): string {
  const url = new URL(required(SERVER_VARIABLE))
  url.pathname = `/${database}`
  return url.href
}

/** Runs something as the owner of the test server, outside all test databases. */
async function onServer<T>(
  use: (client: pg.Client) => Promise<T>,
  connectionString = required(SERVER_VARIABLE),
): Promise<T> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

async function dropAll(connectionString: string, prefix: string): Promise<void> {
  await onServer(async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1)',
      [prefix],
    )
    for (const { datname } of rows) await client.query(`drop database ${datname} with (force)`)
  }, connectionString)
}

const runPrefix = () => required(PREFIX_VARIABLE)
const templateName = () => `${runPrefix()}_template`

function required(variable: string): string {
  const value = process.env[variable]
  if (!value) throw new Error(`${variable} is not set: start the server of the run with startTestServer first`)
  return value
}
