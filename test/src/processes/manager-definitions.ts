import { BusinessError, defineCommand, defineManager, defineProcess, type Holdfast, stepCommand } from 'holdfast'
import { z } from 'zod'

/** What the kill tests run: commands with an effect that must exist once, a manager, and a process that sends commands. */
const Data = z.object({ of: z.string(), refuse: z.boolean().default(false) })
const Reserve = defineCommand('managed_kills', 'Reserve', { data: Data })
const Charge = defineCommand('managed_kills', 'Charge', { data: Data })
const Release = defineCommand('managed_kills', 'Release', { data: Data })

const State = z.object({ of: z.string(), refuse: z.boolean().default(false), seen: z.array(z.string()).default([]) })

export const Order = defineManager('managed_kills', 'Order', {
  state: State,
  steps: ['reserve', 'wait', 'charge'],
  firstStep: () => 'reserve',
  command: (step, { of, refuse }) =>
    step === 'reserve' ? stepCommand(Reserve, { of }) : stepCommand(Charge, { of, refuse }),
  onReply: (state, step, { outcome }) => ({ ...state, seen: [...state.seen, `${step} ${outcome}`] }),
  nextStep: (step) => (({ reserve: 'wait', wait: 'charge', charge: null }) as const)[step],
  compensation: (step, { of }) => (step === 'reserve' ? stepCommand(Release, { of }) : undefined),
  waitOnly: (step) => step === 'wait',
})

export const Booking = defineProcess('managed_kills', 'Booking', {
  state: z.object({ of: z.string() }),
  async execute(ctx, { of }) {
    await ctx.command('reserve', Reserve, { of })
    await ctx.command('charge', Charge, { of })
    return 'booked'
  },
})

export function registerAll(hf: Holdfast): void {
  hf.register(Order)
  hf.register(Booking)
  for (const command of [Reserve, Charge, Release]) {
    hf.handle(command, ({ of, refuse }, ctx) => {
      if (refuse) throw new BusinessError('no', { code: 'REFUSED' })
      return ctx.transaction(async (tx) => {
        await tx.query('insert into effect (of, command) values ($1, $2)', [of, command.type])
      })
    })
  }
}
