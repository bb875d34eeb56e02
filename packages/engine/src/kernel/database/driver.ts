/**
 * What we use of `pg`, as shapes rather than classes: the user's pool may come from another copy of `pg` than ours, and
 * our published types must not need `@types/pg`.
 */
interface DriverClient {
  query(query: DriverQuery): Promise<DriverResult>
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface DriverPoolClient extends DriverClient {
  release(destroy?: boolean): void
  /** What a request to cancel a statement needs; `pg-native` has none of it. */
  readonly processID?: number | null
  readonly secretKey?: number | null
  readonly host?: string
  readonly port?: number
}

export interface DriverQuery {
  text: string
  name?: string
  values?: unknown[]
  /** Milliseconds after which `pg` gives up waiting for the answer. */
  query_timeout?: number
}

/** For a text with several statements `pg` returns a list of these. */
export interface DriverResult {
  rows: unknown[]
  command: string
}

/** A `pg` Pool: ours or the user's own. */
export interface DriverPool {
  connect(): Promise<DriverPoolClient>
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
  readonly options: object
}
