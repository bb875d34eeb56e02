import { defineCommand, type Holdfast, TransientError } from 'holdfast'

/** The commands of the kill tests: one with an effect outside, one with an effect in its own transaction, one that fails first. */
export const Plain = defineCommand('kills', 'Plain')
export const Booked = defineCommand('kills', 'Booked')
export const Flaky = defineCommand('kills', 'Flaky', { retry: { maxAttempts: 5, delays: ['50ms'] } })
export const BatchDone = defineCommand('kills', 'BatchDone')

export function handleAll(hf: Holdfast): void {
  hf.handle(Plain, async (_data, { commandId }) => ({ done: commandId }))
  hf.handle(Booked, (_data, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query('insert into booking (command_id) values ($1)', [ctx.commandId])
      return { booked: ctx.commandId }
    }),
  )
  hf.handle(Flaky, async (_data, { attempt }) => {
    if (attempt === 1) throw new TransientError('not yet')
    return attempt
  })
  hf.handle(BatchDone, async () => undefined)
}
