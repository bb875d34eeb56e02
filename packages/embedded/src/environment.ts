import { EmbeddedPostgresError } from './errors.js'
import type { EmbeddedOptions } from './options.js'
import { startEmbedded } from './start.js'

/** A database to work with: embedded, or the user's own. */
export interface Database {
  readonly connectionString: string
  /** False when it is the user's own, named by DATABASE_URL. */
  readonly embedded: boolean
  /** One sentence for people: which database this is and where its data is. Never contains a password. */
  readonly describe: string
  /** Stops the embedded server; does nothing to a database of the user's. */
  stop(): Promise<void>
}

/**
 * The database of DATABASE_URL if that is set, else an embedded one.
 *
 * @example
 * const database = await databaseFromEnvironment()
 * console.log(`Using ${database.describe}`)
 * try { await run(database.connectionString) } finally { await database.stop() }
 */
export async function databaseFromEnvironment(options: EmbeddedOptions = {}): Promise<Database> {
  const url = process.env.DATABASE_URL?.trim()
  if (url) return { connectionString: url, embedded: false, describe: describeUrl(url), stop: async () => undefined }
  const server = await startEmbedded(options)
  const found = server.reused ? 'found running' : 'embedded'
  return {
    connectionString: server.connectionString,
    embedded: true,
    describe: `PostgreSQL ${server.version} (${found}) on 127.0.0.1:${server.port}, data in ${server.dataDir}`,
    stop: () => server.stop(),
  }
}

function describeUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !['postgres:', 'postgresql:'].includes(parsed.protocol)) {
    throw new EmbeddedPostgresError(
      'HF_EMBEDDED_DATABASE_URL',
      'DATABASE_URL is set, but is not the address of a PostgreSQL database.',
      'Write it as postgres://user:password@host:5432/database, or unset it to use the embedded PostgreSQL.',
    )
  }
  const host = parsed.host || parsed.searchParams.get('host') || 'the local socket'
  return `the PostgreSQL of DATABASE_URL at ${host}, database ${decodeURIComponent(parsed.pathname.slice(1)) || 'default'}`
}
