import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Payments } from '../app.js'
import { batchRoutes } from './batch-routes.js'
import { paymentRoutes } from './payment-routes.js'
import { peopleRoutes } from './people-routes.js'
import { createRouter } from './router.js'

export interface RestServer {
  readonly url: string
  close(): Promise<void>
}

interface Options {
  /** Any free one unless given. */
  readonly port?: number
  readonly onTrouble?: (error: unknown) => void
}

/** Serves the application on the loopback interface: it is an example, and asks nobody who they are. */
export async function serveRest(payments: Payments, { port = 0, onTrouble }: Options = {}): Promise<RestServer> {
  const answer = createRouter(
    {
      ...paymentRoutes(payments),
      ...batchRoutes(payments),
      ...peopleRoutes(payments),
      'GET /books': async () => ({ status: 200, body: await payments.books() }),
    },
    onTrouble ?? (() => undefined),
  )
  const server = createServer((message, response) => void answer(message, response))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: taken } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${taken}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      await closed
    },
  }
}
