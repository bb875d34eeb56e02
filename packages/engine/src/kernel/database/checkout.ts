import { HoldfastError } from '../errors.js'
import type { DriverPool, DriverPoolClient, DriverQuery, DriverResult } from './driver.js'
import { breaksConnection } from './transient.js'
import { unreachable } from './unreachable.js'

/**
 * Borrows connections from a pool. Not `pool.query`, which throws the connection away on every error: a duplicate key
 * would cost a new connection, and a burst of them the whole pool.
 */
export interface Checkout {
  /** Lends a connection for as long as `use` runs; it goes back unless it broke. */
  lend<T>(use: (connection: LentConnection) => Promise<T>): Promise<T>
  /** Lends nothing from now on. */
  close(): void
}

export interface LentConnection {
  query(query: DriverQuery): Promise<DriverResult>
  /** It is in an unknown state: close it instead of giving it back. */
  discard(): void
  readonly usable: boolean
}

export function createCheckout(pool: DriverPool, target: string): Checkout {
  let closed = false

  async function borrow(): Promise<DriverPoolClient> {
    if (closed) throw new HoldfastError('HF_STOPPED', { what: 'the database connection' })
    try {
      return await pool.connect()
    } catch (error) {
      throw unreachable(target, error)
    }
  }

  async function lend<T>(use: (connection: LentConnection) => Promise<T>): Promise<T> {
    const client = await borrow()
    const connection = lentConnection(client)
    // A lent connection that breaks emits 'error', which would end the process if nobody listened.
    const discard = () => connection.discard()
    client.on('error', discard)
    try {
      return await use(connection)
    } finally {
      // First back to the pool, which listens itself from then on: never a moment without a listener.
      client.release(!connection.usable)
      client.removeListener('error', discard)
    }
  }

  return {
    lend,
    close: () => {
      closed = true
    },
  }
}

function lentConnection(client: DriverPoolClient): LentConnection {
  let usable = true
  return {
    async query(query) {
      try {
        return await client.query(query)
      } catch (error) {
        if (breaksConnection(error)) usable = false
        throw error
      }
    },
    discard: () => {
      usable = false
    },
    get usable() {
      return usable
    },
  }
}
