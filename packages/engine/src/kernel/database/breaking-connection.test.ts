import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openDatabase } from './open.js'

const message = (type: string, body: string) => {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, Buffer.from(body)])
}

test('K-11 a server that ends a connection as it accepts it does not end the process', async () => {
  const accepted = message('R', '\0\0\0\0')
  const ready = message('Z', 'I')
  const ended = message('E', 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    // In one piece, so that the driver meets the end before anybody has the connection.
    socket.once('data', () => socket.end(Buffer.concat([accepted, ready, ended])))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  await expect(openDatabase({ connectionString: `postgres://me@127.0.0.1:${port}/db` })).rejects.toThrow()
  server.close()
})
