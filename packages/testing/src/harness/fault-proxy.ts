import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP proxy in front of PostgreSQL that a test can make fail. */
export interface FaultProxy {
  readonly connectionString: string
  /** Ends every connection now. */
  cut(): void
  /** Accepts no new connections until told otherwise. */
  refuse(refusing: boolean): void
  /** Lets the next request that contains the text through, and cuts the connection before the response. */
  swallowAnswerTo(text: string): Promise<void>
  /** Lets the next request that contains the text through, and hangs up at once: the server is still at work on it. */
  hangUpAfter(text: string): Promise<void>
  /** Lets nothing through in either direction until told otherwise: a network that hangs. */
  hang(hanging: boolean): void
  close(): Promise<void>
}

/** Starts a proxy on loopback to the server of a connection string. */
export async function startFaultProxy(connectionString: string): Promise<FaultProxy> {
  const url = new URL(connectionString)
  const target = { host: url.hostname, port: Number(url.port || 5432) }
  const pairs = new Set<{ client: Socket; server: Socket }>()
  let refusing = false
  let hanging = false
  let swallow: { text: string; done: () => void } | undefined
  let hangUp: { text: string; done: () => void } | undefined

  const listener = createServer((client) => {
    if (refusing) return void client.destroy()
    const server = connect(target)
    const pair = { client, server }
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    let swallowing = false
    client.on('data', (data) => {
      if (hanging) return
      if (swallow && data.includes(swallow.text)) swallowing = true
      server.write(data)
      if (!hangUp || !data.includes(hangUp.text)) return
      hangUp.done()
      hangUp = undefined
      // Politely towards the server, so that the request is not lost with the connection.
      server.end()
      client.destroy()
    })
    server.on('data', (data) => {
      if (hanging) return
      if (!swallowing) return void client.write(data)
      // The statement has run and been committed; its client never gets the response.
      swallow?.done()
      swallow = undefined
      end()
    })
    for (const socket of [client, server]) socket.on('error', end)
    client.on('close', () => (server.writableEnded ? pairs.delete(pair) : end()))
    server.on('close', end)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  url.hostname = '127.0.0.1'
  url.port = String(address.port)

  const cut = () => {
    for (const { client } of pairs) client.destroy()
  }
  return {
    connectionString: url.href,
    cut,
    refuse: (now) => {
      refusing = now
    },
    hang: (now) => {
      hanging = now
    },
    swallowAnswerTo: (text) =>
      new Promise((done) => {
        swallow = { text, done }
      }),
    hangUpAfter: (text) =>
      new Promise((done) => {
        hangUp = { text, done }
      }),
    async close() {
      cut()
      listener.close()
      await once(listener, 'close')
    },
  }
}
