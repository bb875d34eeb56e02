import { randomBytes } from 'node:crypto'
import { type Database, databaseFromEnvironment, EmbeddedPostgresError, type ServerSettings } from '@holdfast/embedded'
import pg from 'pg'
import { refuseUnsafe } from './durability.js'
import { withClient } from './with-client.js'

/** The PostgreSQL of one bench run. */
export interface BenchServer {
  readonly version: string
  readonly describe: string
  /** The harness's own database: the yardstick, and the place to watch the others from. */
  readonly controlConnectionString: string
  /** Does pg_stat_statements work here? */
  readonly countsStatements: boolean
  /** Creates a fresh database; returns its connection string. */
  createDatabase(): Promise<string>
  dropDatabase(connectionString: string): Promise<void>
  /** Statistics for the planner, and nothing left to write from what was before. */
  settle(connectionString: string): Promise<void>
  /** Drops what the run has made, and stops the server if the run has started it. */
  stop(): Promise<void>
}

const settings: ServerSettings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '1GB',
  // No checkpoint in the middle of one measurement and not of another: the harness makes one before each.
  max_wal_size: '8GB',
  checkpoint_timeout: '1h',
}

/** Starts a fresh PostgreSQL, or takes that of DATABASE_URL; refuses one that does not keep what it has committed. */
export async function startServer(notice: (line: string) => void): Promise<BenchServer> {
  const database = await openDatabase(notice)
  try {
    return await benchServer(database, notice)
  } catch (error) {
    await database.stop()
    throw error
  }
}

async function openDatabase(notice: (line: string) => void): Promise<Database> {
  try {
    return await databaseFromEnvironment({
      ephemeral: true,
      settings: { ...settings, shared_preload_libraries: 'pg_stat_statements' },
    })
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError) || error.code !== 'HF_EMBEDDED_START_FAILED') throw error
    notice('this PostgreSQL does not start with pg_stat_statements: statements are not counted')
    return databaseFromEnvironment({ ephemeral: true, settings })
  }
}

async function benchServer(database: Database, notice: (line: string) => void): Promise<BenchServer> {
  const prefix = `hf_bench_${process.pid}_${randomBytes(3).toString('hex')}`
  const admin = new pg.Client(database.connectionString)
  // Without a listener a connection that breaks would end the process; the next statement tells it better.
  admin.on('error', () => undefined)
  await admin.connect()
  const made = new Set<string>()

  async function createDatabase(): Promise<string> {
    const name = `${prefix}_${made.size}`
    await admin.query(`create database ${name}`)
    made.add(name)
    const url = new URL(database.connectionString)
    url.pathname = `/${name}`
    return url.href
  }

  async function drop(name: string): Promise<void> {
    await admin.query(`drop database if exists ${name} with (force)`)
  }

  async function release(): Promise<void> {
    try {
      // An embedded server goes as a whole.
      if (!database.embedded) for (const name of made) await drop(name)
    } finally {
      await admin.end()
    }
  }

  try {
    const version = await refuseUnsafe(admin)
    const controlConnectionString = await createDatabase()
    return {
      version,
      describe: database.describe,
      controlConnectionString,
      countsStatements: await statementsAreCounted(controlConnectionString, notice),
      createDatabase,
      dropDatabase: (connectionString) => drop(new URL(connectionString).pathname.slice(1)),
      settle: (connectionString) => settle(connectionString, notice),
      async stop() {
        await release()
        await database.stop()
      },
    }
  } catch (error) {
    await release()
    throw error
  }
}

async function statementsAreCounted(connectionString: string, notice: (line: string) => void): Promise<boolean> {
  return withClient(connectionString, async (client) => {
    try {
      await client.query('create extension if not exists pg_stat_statements')
      await client.query('select from pg_stat_statements limit 1')
      return true
    } catch (error) {
      notice(`statements are not counted: ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  })
}

async function settle(connectionString: string, notice: (line: string) => void): Promise<void> {
  await withClient(connectionString, async (client) => {
    await client.query('vacuum analyze')
    try {
      await client.query('checkpoint')
    } catch (error) {
      notice(`no checkpoint before this measurement: ${error instanceof Error ? error.message : String(error)}`)
    }
  })
}
