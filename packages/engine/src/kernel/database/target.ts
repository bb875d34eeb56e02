import pg from 'pg'
import { invalidOption } from '../validation/invalid-option.js'
import type { DriverPool } from './driver.js'
import { unreachable } from './unreachable.js'

/** Where the database is. Its types do not name those of `pg`, which users need not have. */
export interface Target {
  /** Settings of a client of `pg`. */
  readonly config: object
  /** For messages: never with the password. */
  readonly label: string
}

/** Milliseconds for making a connection, or for waiting until one of the pool is free. */
const CONNECT_TIMEOUT = 10_000

const UNNAMED = 'the given connection string'

/** From a connection string; without one from the environment variable DATABASE_URL. */
export function targetOf(connectionString: string | undefined = process.env.DATABASE_URL): Target {
  if (connectionString === undefined || connectionString === '') {
    throw invalidOption(
      'holdfast',
      'connectionString',
      'is missing: give `connectionString` or `pool`, or set the environment variable DATABASE_URL',
    )
  }
  // `pg` would take any text for the name of a database on a host called "base".
  if (!/^(postgres(ql)?:\/\/|socket:|\/)/.test(connectionString)) {
    throw unreachable(UNNAMED, 'it is not an address such as postgres://user:password@host:5432/database')
  }
  const config = { connectionString }
  return { config, label: labelOf(config, mayLeak(connectionString)) }
}

/** A user's pool, asked for what it connects to. */
export function targetOfPool(pool: DriverPool): Target {
  // `pg` hides the password from enumeration, so that a copy of the options lacks it unless it is named.
  const options: pg.ClientConfig = pool.options
  const config = { ...options, ...('password' in options ? { password: options.password } : {}) }
  return { config, label: labelOf(config, mayLeak(options.connectionString ?? '')) }
}

/** The settings of a connection that we make ourselves. */
export function connectionConfig(target: Target, applicationName: string | undefined): object {
  return {
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    ...target.config,
    // A firewall that forgets idle connections would otherwise be noticed only by the next statement's time limit.
    keepAlive: true,
    ...(applicationName === undefined
      ? { fallback_application_name: 'holdfast' }
      : { application_name: applicationName }),
  }
}

function labelOf(config: pg.ClientConfig, leaks: boolean): string {
  try {
    // Not connected: `pg` merges the connection string, the options and the PG… variables here.
    const { host, port, database, user } = new pg.Client(config)
    return leaks ? UNNAMED : `${host}:${port}/${database} as ${user}`
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw unreachable(UNNAMED, `${problem}; are special characters in the password percent-encoded?`)
  }
}

/** A `/`, `?` or `#` in the password that is not percent-encoded makes a part of it look like the port or the database. */
function mayLeak(connectionString: string): boolean {
  return /:\/\/[^@]*[/?#][^@]*@/.test(connectionString)
}
