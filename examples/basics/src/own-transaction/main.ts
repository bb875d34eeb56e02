import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, holdfast, TransientError } from 'holdfast'
import pg from 'pg'
import { z } from 'zod'

const BookRisk = defineCommand('payments', 'BookRisk', {
  data: z.object({ payment: z.string(), cents: z.int().positive() }),
  result: z.object({ booked: z.int() }),
  retry: ['50ms'], // short for the example
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
const client = new pg.Client({ connectionString: database.connectionString })
await client.connect()
await client.query('create table payment (id text primary key, cents int)')
await client.query('create table booking (payment text, cents int)')

hf.handle(BookRisk, ({ payment, cents }, ctx) =>
  ctx.transaction(async (tx) => {
    await tx.query('insert into booking (payment, cents) values ($1, $2)', [payment, cents])
    if (ctx.attempt === 1) throw new TransientError('the insert of the first attempt is rolled back')
    return { booked: cents }
  }),
)
await hf.run()

await client.query('begin')
await client.query('insert into payment (id, cents) values ($1, $2)', ['PAY-1', 25_000])
const booking = await hf.send(BookRisk, { payment: 'PAY-1', cents: 25_000 }, { transaction: client })
await client.query('commit')
await booking.result()

await client.query('begin')
await client.query('insert into payment (id, cents) values ($1, $2)', ['PAY-2', 99_000])
await hf.send(BookRisk, { payment: 'PAY-2', cents: 99_000 }, { transaction: client })
await client.query('rollback') // neither the payment nor the command has ever been there

const commands = (await hf.commands.list({ domain: 'payments' })).items
const { rows: payments } = await client.query<{ id: string }>('select id from payment')
const { rows: bookings } = await client.query<{ payment: string; cents: number }>('select payment, cents from booking')
console.log(`payments: ${payments.map(({ id }) => id).join(', ')}`)
for (const { status, attempts } of commands) console.log(`command: ${status} with attempt ${attempts}`)
for (const { payment, cents } of bookings) console.log(`booking: ${cents} cents of ${payment}`)

await client.end()
await hf.close()
await database.stop()
