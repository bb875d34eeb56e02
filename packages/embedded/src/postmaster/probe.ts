import { connect, createServer } from 'node:net'
import { systemErrorCode } from '../errors.js'

const HOST = '127.0.0.1'
const TIMEOUT_MS = 2_000
// The protocol's SSLRequest: a server responds with one letter, before any login.
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Whether a PostgreSQL server responds on the port. */
export function isServerRunning(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: HOST, port, timeout: TIMEOUT_MS })
    const finish = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('connect', () => socket.write(SSL_REQUEST))
    socket.on('data', (data) => finish(data[0] === 0x4e || data[0] === 0x53))
    for (const event of ['error', 'timeout', 'close']) socket.on(event, () => finish(false))
  })
}

/** Whether the port is free now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', (error) => (systemErrorCode(error) === 'EADDRINUSE' ? resolve(false) : reject(error)))
    server.listen({ host: HOST, port, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

/** A port that is free at the moment; another program may take it before the server does, so a start may have to try again. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen({ host: HOST, port: 0 }, () => {
      const address = server.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      server.close(() => resolve(port))
    })
  })
}
