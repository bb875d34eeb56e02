import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../errors.js'
import { cancelStatement } from './cancel.js'
import type { DriverPool, DriverPoolClient, DriverQuery, DriverResult } from './driver.js'
import { createSlots } from './slots.js'
import { breaksConnection } from './transient.js'
import { unreachable } from './unreachable.js'

/**
 * Borrows connections from a pool. Not `pool.query`, which throws the connection away on every error: a duplicate key
 * would cost a new connection, and a burst of them the whole pool.
 */
export interface Checkout {
  /** Lends a connection for as long as `use` runs; it goes back unless it broke. */
  lend<T>(use: (connection: LentConnection) => Promise<T>): Promise<T>
  /**
   * The same for a transaction with user code in it, which may take its time. These never have the whole pool, so that our own
   * statements find a connection beside them; a caller that comes too late waits here until the signal fires.
   */
  lendToUser<T>(use: (connection: LentConnection) => Promise<T>, signal?: AbortSignal): Promise<T>
  /** Lends nothing from now on, waits a moment for what is lent, and takes back the rest: its transactions are rolled back. */
  close(): Promise<void>
}

export interface LentConnection {
  query(query: DriverQuery): Promise<DriverResult>
  /** It is in an unknown state: close it instead of returning it to the pool. A statement that still runs is cancelled. */
  discard(): void
  readonly usable: boolean
  /** Whether a statement is under way. */
  readonly busy: boolean
}

/** Connections that user transactions leave to our own statements, where there are enough of them. */
const KEPT = 2
/** Milliseconds that statements under way have to end by themselves when the pool is closed. */
const GOODBYE = 2_000

export function createCheckout(pool: DriverPool, target: string, size: number): Checkout {
  const lent = new Set<Lending>()
  const userSlots = createSlots(Math.max(1, size - KEPT), 'the database connection')
  let closed = false
  let onReturned: (() => void) | undefined

  async function borrow(): Promise<DriverPoolClient> {
    if (closed) throw stopped()
    try {
      return await pool.connect()
    } catch (error) {
      throw unreachable(target, error)
    }
  }

  async function lend<T>(use: (connection: LentConnection) => Promise<T>): Promise<T> {
    const client = await borrow()
    const lending = lendingOf(client)
    lent.add(lending)
    // A lent connection that breaks emits 'error', which would end the process without a listener.
    const discard = () => lending.connection.discard()
    client.on('error', discard)
    try {
      return await Promise.race([use(lending.connection), lending.takenBack])
    } finally {
      if (lending.unanswered) {
        lending.connection.discard()
        await cancelStatement(client)
      }
      // First back to the pool, which listens itself from then on: never a moment without a listener.
      client.release(!lending.connection.usable)
      client.removeListener('error', discard)
      lent.delete(lending)
      if (lent.size === 0) onReturned?.()
    }
  }

  return {
    lend,
    async lendToUser(use, signal) {
      const giveBack = await userSlots.take(signal)
      try {
        return await lend(use)
      } finally {
        giveBack()
      }
    },
    async close() {
      closed = true
      userSlots.close()
      if (lent.size === 0) return
      const returned = new Promise<void>((resolve) => {
        onReturned = resolve
      })
      await Promise.race([returned, sleep(GOODBYE, undefined, { ref: false })])
      for (const lending of lent) lending.takeBack()
      if (lent.size > 0) await returned
    },
  }
}

const stopped = () => new HoldfastError('HF_STOPPED', { what: 'the database connection' })

interface Lending {
  readonly connection: LentConnection
  /** Whether the server may still be at work on a statement of this connection. */
  readonly unanswered: boolean
  readonly takenBack: Promise<never>
  takeBack(): void
}

function lendingOf(client: DriverPoolClient): Lending {
  let usable = true
  let underWay = 0
  let timedOut = false
  let withdrawn = false
  let takeBack: (reason: Error) => void = () => undefined
  const takenBack = new Promise<never>((_, reject) => {
    takeBack = reject
  })
  takenBack.catch(() => undefined)
  const connection: LentConnection = {
    async query(query) {
      if (withdrawn) throw stopped()
      underWay += 1
      try {
        return await client.query(query)
      } catch (error) {
        if (breaksConnection(error)) usable = false
        // Our own time limit: the server does not know it and continues.
        if (error instanceof Error && error.message === 'Query read timeout') timedOut = true
        throw error
      } finally {
        underWay -= 1
      }
    },
    discard: () => {
      usable = false
    },
    get usable() {
      return usable
    },
    get busy() {
      return underWay > 0
    },
  }
  return {
    connection,
    takenBack,
    get unanswered() {
      return timedOut || underWay > 0
    },
    takeBack() {
      withdrawn = true
      usable = false
      takeBack(stopped())
    },
  }
}
