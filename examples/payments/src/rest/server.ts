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
  /** Default: any free port. */
  readonly port?: number
  readonly onTrouble?: (error: unknown) => void
  /** How long `close` waits for open requests. */
  readonly closeWithinMs?: number
}

/** A request that has not arrived by then is ended; the response may take longer. */
const REQUEST_WITHIN = 10_000
const MOST_CONNECTIONS = 500

/** Serves the application on the loopback interface: it is an example without authentication. */
export async function serveRest(payments: Payments, options: Options = {}): Promise<RestServer> {
  const { port = 0, onTrouble, closeWithinMs = 2_000 } = options
  const answer = createRouter(
    {
      ...paymentRoutes(payments),
      ...batchRoutes(payments),
      ...peopleRoutes(payments),
      'GET /books': async () => ({ status: 200, body: await payments.books() }),
    },
    onTrouble ?? (() => undefined),
  )
  const limits = { headersTimeout: REQUEST_WITHIN, requestTimeout: REQUEST_WITHIN, connectionsCheckingInterval: 1_000 }
  const server = createServer(limits, (message, response) => void answer(message, response))
  server.maxConnections = MOST_CONNECTIONS
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: taken } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${taken}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      // A caller that never finishes its request, or never reads the response, must not block `close`.
      const overdue = setTimeout(() => server.closeAllConnections(), closeWithinMs)
      await closed
      clearTimeout(overdue)
    },
  }
}
