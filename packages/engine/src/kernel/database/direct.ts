import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { HoldfastError } from '../errors.js'
import type { DriverQuery } from './driver.js'
import type { Executor, Queryable, Statement } from './executor.js'
import type { Session } from './session.js'
import type { Target } from './target.js'
import { unreachable } from './unreachable.js'

/** Milliseconds for closing a connection in order. */
const GOODBYE = 2_000

/** A connection of its own outside the pool: for LISTEN, and for a lock that is held while other statements run. */
export interface DirectConnection extends Executor, Queryable {
  /** A time limit of 0 waits for as long as it takes; the default is the database's statement timeout. */
  query(text: string, params?: unknown[], timeLimit?: number): Promise<{ rows: unknown[] }>
  onNotification(listener: (channel: string, payload: string) => void): void
  /** Called once if the connection breaks; not when it is closed. */
  onLost(listener: (error: Error) => void): void
  /** Whether there is a pooler, so that each transaction may get another server process. */
  isPooled(): Promise<boolean>
  close(): Promise<void>
}

/** Opens direct connections and remembers them, so that none outlives the database object. */
export function createDirectConnections(target: Target, config: object, session: Session) {
  const open = new Set<DirectConnection>()
  let closed = false
  return {
    async open(): Promise<DirectConnection> {
      const connection = await openDirect(target, config, session)
      const close = async () => {
        open.delete(connection)
        await connection.close()
      }
      open.add(connection)
      if (closed) {
        await close()
        throw new HoldfastError('HF_STOPPED', { what: 'the database connection' })
      }
      return { ...connection, close }
    },
    async closeAll(): Promise<void> {
      closed = true
      await Promise.all([...open].map((connection) => connection.close()))
    },
  }
}

async function openDirect(target: Target, config: object, session: Session): Promise<DirectConnection> {
  const socket = new Socket()
  const client = new pg.Client({ ...config, stream: () => socket })
  const lost = watchForLoss(client)
  try {
    await client.connect()
  } catch (error) {
    await client.end()
    throw unreachable(target.label, error)
  }
  const connection = { query: (query: DriverQuery) => client.query(query) }
  return {
    run: async <Row extends object>(statement: Statement, params?: readonly unknown[]) =>
      (await session.run(connection, 'apart', statement, params)) as Row[],
    query: (text, params, timeLimit) => session.send(connection, 'query', text, params, timeLimit),
    onNotification: (listener) => {
      client.on('notification', ({ channel, payload = '' }) => listener(channel, payload))
    },
    onLost: lost.listen,
    isPooled: async () => {
      const { rows } = await session.send(connection, 'read backend', 'select pg_catalog.pg_backend_pid() pid')
      const [{ pid }] = rows as [{ pid: number }]
      // A pooler makes up the process id that it tells its clients.
      return !('processID' in client) || client.processID !== pid
    },
    close: async () => {
      lost.stop()
      // `end` waits for the server to close the connection, which never happens on a network that hangs.
      await Promise.race([client.end(), sleep(GOODBYE, undefined, { ref: false })])
      socket.destroy()
    },
  }
}

function watchForLoss(client: pg.Client): { listen: DirectConnection['onLost']; stop: () => void } {
  let stopped = false
  let reason: Error | undefined
  const listeners: ((error: Error) => void)[] = []
  // `pg` emits 'error' for what the server says and again when the socket closes; the first one says more. Without a
  // listener it would end the process.
  client.on('error', (error) => {
    if (stopped || reason) return
    reason = error
    for (const listener of listeners) listener(error)
  })
  return {
    listen: (listener) => {
      if (reason) listener(reason)
      else listeners.push(listener)
    },
    stop: () => {
      stopped = true
    },
  }
}
