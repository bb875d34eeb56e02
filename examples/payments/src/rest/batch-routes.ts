import { z } from 'zod'
import type { Payments } from '../app.js'
import { type BatchProgress, batchProgress } from '../submission/progress.js'
import { notFound } from './problem.js'
import type { Routes } from './router.js'

/** Batches of generated payments, in either model, with a behaviour of the simulated world. */
export function batchRoutes(payments: Payments): Routes {
  return {
    'POST /batches': async ({ body }) => {
      const created = await payments.createBatch(await body())
      return { status: 201, body: created, headers: { location: `/batches/${created.id}` } }
    },
    'GET /batches': async () => ({ status: 200, body: await batchProgress(payments.pool) }),
    'GET /batches/:id': async ({ params: { id = '' } }) => {
      const known = z.uuid().safeParse(id).success ? await batchProgress(payments.pool, id) : []
      const [found]: readonly BatchProgress[] = known
      if (!found) throw notFound(`batch ${id}`)
      return { status: 200, body: found }
    },
  }
}
