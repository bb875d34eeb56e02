import type { DriverQuery, DriverResult } from './driver.js'
import type { Statement } from './executor.js'
import type { PreparedStatements } from './prepared.js'

/** Awaited with `before <statement>` and `after <statement>` around every statement; tests kill and cut there. */
export type Faults = (point: string) => void | Promise<void>

/** One connection, from the pool or separate. */
interface Connection {
  query(query: DriverQuery): Promise<DriverResult>
}

/**
 * Where a statement runs. `alone`: outside a transaction, so that it is repeated where only its preparation failed.
 * `within`: inside one, where a failed statement cannot be repeated. `apart`: on a connection of its own, which runs few
 * statements and prepares none.
 */
type Place = 'alone' | 'within' | 'apart'

interface SessionSettings {
  readonly sql: (text: string) => string
  readonly prepared: PreparedStatements
  /** Milliseconds. */
  readonly statementTimeout: number
  readonly faults: Faults | undefined
}

/** How our statements are sent on a connection. */
export interface Session {
  readonly sql: (text: string) => string
  run(connection: Connection, place: Place, statement: Statement, params?: readonly unknown[]): Promise<unknown[]>
  /** Raw text, by the simple protocol unless there are parameters. A time limit of 0 waits for as long as it takes. */
  send(
    connection: Connection,
    name: string,
    text: string,
    params?: unknown[],
    timeLimit?: number,
  ): Promise<DriverResult>
  /** Whether the server knows transaction_timeout (PostgreSQL 17 and newer). */
  hasTransactionTimeout(): boolean
  /** Set once, when the version is known. */
  serverVersion(number: number): void
  /** Whatever else counts as a statement for the fault points. */
  withFaults<T>(name: string, operation: () => Promise<T>): Promise<T>
}

export function createSession({ sql, prepared, statementTimeout, faults }: SessionSettings): Session {
  async function withFaults<T>(name: string, operation: () => Promise<T>): Promise<T> {
    if (!faults) return operation()
    await faults(`before ${name}`)
    const result = await operation()
    await faults(`after ${name}`)
    return result
  }

  async function run(
    connection: Connection,
    place: Place,
    text: string,
    params: readonly unknown[],
  ): Promise<unknown[]> {
    const name = place === 'apart' ? undefined : prepared.nameOf(text)
    const query: DriverQuery = { text, values: [...params], query_timeout: statementTimeout }
    if (name !== undefined) query.name = name
    try {
      return (await connection.query(query)).rows
    } catch (error) {
      // All that is learned from is found before the statement is executed, so nothing can happen twice.
      if (prepared.learn(text, name, error) && place === 'alone') return run(connection, place, text, params)
      throw error
    }
  }

  let version = 0
  return {
    sql,
    withFaults,
    hasTransactionTimeout: () => version >= 170_000,
    serverVersion: (number) => {
      version = number
    },
    run: (connection, place, statement, params = []) =>
      withFaults(statement.name, () => run(connection, place, sql(statement.text), params)),
    send: (connection, name, text, params, timeLimit = statementTimeout) =>
      withFaults(name, () => {
        const query: DriverQuery = { text }
        if (params) query.values = params
        if (timeLimit > 0) query.query_timeout = timeLimit
        return connection.query(query)
      }),
  }
}
