import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast, TransientError } from 'holdfast'
import pg from 'pg'
import { z } from 'zod'

let calls = 0

const Booking = defineProcess('ledger', 'Booking', {
  state: z.object({ account: z.string(), cents: z.int() }),
  async execute(ctx, { account, cents }) {
    // Your rows and the step's record commit together: exactly once, however often it is called.
    return ctx.transaction(
      'book',
      async (tx) => {
        calls += 1
        await tx.query('insert into booking (account, cents) values ($1, $2)', [account, cents])
        if (calls === 1) throw new TransientError('the network went away after the insert')
        const { rows } = await tx.query('select sum(cents)::int as balance from booking where account = $1', [account])
        return z.array(z.object({ balance: z.int() })).parse(rows)[0]?.balance ?? 0
      },
      { retry: { maxAttempts: 2, delay: '10ms' } },
    )
  },
})

const database = await startEmbedded({ ephemeral: true })
const client = new pg.Client({ connectionString: database.connectionString })
await client.connect()
await client.query('create table booking (account text, cents int)')
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Booking)
await hf.run()

const { id } = await hf.start(Booking, { account: 'A-1', cents: 500 })
console.log(`balance ${await hf.process(Booking, id).result()} after ${calls} calls`)
const { rows } = await client.query('select account, cents from booking')
console.log(`rows: ${rows.map(({ account, cents }) => `${account} ${cents}`).join(', ')}`)

// The other way round: a process that is started in your own transaction, if it commits.
await client.query('begin')
await hf.start(Booking, { account: 'A-2', cents: 100 }, { key: 'never', transaction: client })
await client.query('rollback')
console.log(`started by what was rolled back: ${(await hf.processes.list({ key: 'never' })).items.length}`)

await hf.close()
await client.end()
await database.stop()
