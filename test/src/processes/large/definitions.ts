import { defineProcess } from 'holdfast'
import { z } from 'zod'

export const STEPS = 40

/** Keeps nothing of what its steps return, as a long-running process does that works through a list. */
export const Import = defineProcess('large', 'Import', {
  state: z.object({ n: z.number() }),
  responses: { chunk: { data: z.string() }, go: { data: z.object({}) } },
  async execute(ctx, { n }) {
    for (let step = 0; step < STEPS; step++) await ctx.step(`s${step}`, () => step)
    await ctx.event('go', 'go', { timeout: '10d' })
    return n
  },
})
