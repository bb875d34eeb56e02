import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, holdfast } from 'holdfast'
import { z } from 'zod'

const BookRisk = defineCommand('payments', 'BookRisk', {
  data: z.object({ payment: z.string(), cents: z.int().positive() }),
  result: z.object({ reference: z.string() }),
})

const database = await startEmbedded({ ephemeral: true }) // or any PostgreSQL of yours, 14 or newer
const hf = await holdfast({ connectionString: database.connectionString }) // brings its schema up to date

hf.handle(BookRisk, async ({ payment, cents }, ctx) => {
  console.log(`attempt ${ctx.attempt}: booking ${cents} cents of ${payment}`)
  return { reference: `RISK-${payment}` }
})
await hf.run({ concurrency: 50 })

const booking = await hf.send(BookRisk, { payment: 'PAY-1', cents: 25_000 })
const { reference } = await booking.result()
console.log(`booked as ${reference}`)

const { status } = await booking.get()
const history = await booking.history()
console.log(`${status}: ${history.map(({ event }) => event).join(', ')}`)

await hf.close() // drains the worker
await database.stop()
