import { connect } from 'node:net'
import type { DriverPoolClient } from './driver.js'

/** Milliseconds for asking the server to end a statement. */
const PATIENCE = 1_000
const CANCEL_REQUEST = 80_877_102

/**
 * Asks the server to end whatever this connection runs, as libpq's PQcancel does: on a connection of its own, in plain text,
 * by the key of this connection. Not by pg_cancel_backend(): behind a pooler the process id that a client knows is made up,
 * and the pooler itself finds the right server by the key. Resolves when the server has taken the request, or after a second.
 */
export function cancelStatement(client: DriverPoolClient): Promise<void> {
  const { processID, secretKey, host, port } = client
  // `pg-native` does not tell them.
  if (typeof processID !== 'number' || typeof secretKey !== 'number' || host === undefined) return Promise.resolve()
  const request = Buffer.alloc(16)
  request.writeInt32BE(16, 0)
  request.writeInt32BE(CANCEL_REQUEST, 4)
  request.writeInt32BE(processID, 8)
  request.writeInt32BE(secretKey, 12)
  return new Promise((resolve) => {
    const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port ?? 5432, host)
    socket.setTimeout(PATIENCE, () => socket.destroy())
    // A request that does not get through changes nothing: the connection is closed all the same.
    socket.on('error', () => undefined)
    socket.on('close', () => resolve())
    socket.end(request)
    // The server hangs up when it has passed the request on; it sends nothing, but an unread end would not be noticed.
    socket.resume()
  })
}
