import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

const Trip = defineProcess('travel', 'Trip', {
  state: z.object({ traveller: z.string() }),
  async execute(ctx, state) {
    await ctx.step('flight', async () => ({ ticket: `flight for ${state.traveller}` }), {
      // Gets the result of its own step, however much the state has changed since; undefined if it is unknown whether the call
      // took effect.
      compensate: async (booked) => console.log(`cancelled: ${booked?.ticket}`),
    })
    await ctx.step('hotel', async () => ({ room: `room for ${state.traveller}` }), {
      compensate: async (booked) => console.log(`cancelled: ${booked?.room}`),
    })
    // A refusal, not a malfunction: nothing is retried, everything is undone, the last step first.
    await ctx.step('car', () => {
      throw new BusinessError('no cars left', { code: 'SOLD_OUT' })
    })
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Trip)
await hf.run()

const trip = await hf.start(Trip, { traveller: 'ann' })
const { status, error } = await trip.get()
console.log(status)
console.log(`${error?.code}: ${error?.message}`)

await hf.close()
await database.stop()
