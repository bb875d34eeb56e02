import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineWorkflow, holdfast, TransientError } from 'holdfast'
import { z } from 'zod'

// A graph of names, without code. The output of a step is the input of the next.
const Trip = defineWorkflow('travel', 'trip')
  .step('consult', 'Consult')
  .savePoint('advised') // once it is reached, nothing before it is undone
  .step('flight', 'BookFlight', { retry: { maxAttempts: 5, delay: '50ms', factor: 1 }, timeout: '10s' })
  .onFailure('cancelFlight', 'CancelFlight', { retry: { maxAttempts: 10 } })
  .step('hotel', 'BookHotel')
  .onFailure('cancelHotel', 'CancelHotel')
  .step('car', 'RentCar', { nonIdempotent: true })
  .onFailure('returnCar', 'ReturnCar')
  .build()

const Traveller = z.object({ traveller: z.string(), wantsCar: z.boolean() })

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle('Consult', (trip) => trip)
hf.handle(
  'BookFlight',
  (trip, ctx) => {
    // An error without a kind counts as transient too: retried until the attempts are used up.
    if (ctx.attempt === 1) throw new TransientError('the airline is busy')
    console.log(`flight booked with attempt ${ctx.attempt} of ${ctx.maxAttempts}`)
    return { ...trip, ticket: 'LH-1' }
  },
  { input: Traveller },
)
hf.handle('BookHotel', (trip) => ({ ...trip, room: '212' }), {
  input: Traveller.extend({ ticket: z.string() }),
})
hf.handle(
  'RentCar',
  ({ wantsCar }) => {
    // A refusal, not a malfunction: nothing is retried, everything is undone, the last step first.
    if (wantsCar) throw new BusinessError('no cars left', { code: 'SOLD_OUT' })
    return { car: null }
  },
  { input: Traveller },
)
// A compensation gets its step's input, and its step's output, if there is one, as `ctx.output`.
hf.handle('CancelFlight', (_, ctx) => console.log(`flight cancelled: ${JSON.stringify(ctx.output)}`))
hf.handle('CancelHotel', () => console.log('hotel cancelled'))
// The compensation of the failed step comes first, because a failed call may have had an effect.
hf.handle('ReturnCar', (_, ctx) => {
  console.log(`car returned, if there was one: ${ctx.output === undefined ? 'none' : 'yes'}`)
})
await hf.run()

console.log(await (await hf.start(Trip, { traveller: 'ann', wantsCar: false })).result())

const trip = await hf.start(Trip, { traveller: 'bob', wantsCar: true })
await trip.result().catch((error: Error) => console.log(error.message.replace(trip.id, '…')))
console.log(await trip.render())

await hf.close()
await database.stop()
