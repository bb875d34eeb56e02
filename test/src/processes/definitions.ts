import { BusinessError, defineProcess, type Holdfast, TransientError } from 'holdfast'
import { z } from 'zod'
import type { Notes } from './notes.js'

/**
 * The processes of the kill tests. Each test round has a domain of its own, so that rounds run beside each other and no
 * worker takes what is not its own.
 */
export function processesOf(domain: string, { called, calledOnce, undone, wasCalled }: Notes) {
  const Child = defineProcess(domain, 'Child', {
    state: z.object({ n: z.number() }),
    async execute(ctx, { n }) {
      await ctx.step('inner', () => called(ctx.id, 'inner'))
      return n * 2
    },
  })

  /** Something of everything, to a good end. */
  const Journey = defineProcess(domain, 'Journey', {
    state: z.object({ steps: z.number().default(0), approvals: z.number().default(0) }),
    responses: {
      approved: {
        data: z.object({ by: z.string() }),
        apply: (state) => {
          state.approvals += 1
        },
      },
    },
    async execute(ctx, state) {
      await ctx.step('plain', () => called(ctx.id, 'plain'))
      state.steps += 1
      const attempts = await ctx.step(
        'flaky',
        async ({ attempt }) => {
          await called(ctx.id, 'flaky', ['plain'])
          if (attempt === 1) throw new TransientError('not yet')
          return attempt
        },
        { retry: { maxAttempts: 3, delay: '20ms' } },
      )
      state.steps += 1
      const pair = await Promise.all(
        ['left', 'right'].map((side) =>
          ctx.step(side, async () => {
            await called(ctx.id, side, ['flaky'])
            return side
          }),
        ),
      )
      state.steps += pair.length
      await ctx.wait('approval', () => state.approvals > 0)
      await ctx.sleep('pause', '30ms')
      const booked = await ctx.transaction('book', async (tx) => {
        await tx.query('insert into booking values ($1, $2)', [ctx.id, 'journey'])
        return 'booked'
      })
      state.steps += 1
      const doubled = await ctx.child('child', Child, { n: 21 })
      const once = await ctx.step(
        'once',
        async () => {
          // The call itself tries once: a note that arrived after an inquiry said `notDone` would be a second call.
          await calledOnce(ctx.id, 'once', ['book', 'child']).catch((error: unknown) => {
            throw new TransientError('the note may be lost', { cause: error })
          })
          return 'done'
        },
        {
          retry: { maxAttempts: 100, delay: '50ms', factor: 1 },
          atMostOnce: true,
          inquire: async () => ((await wasCalled(ctx.id, 'once')) ? { done: 'done' } : 'notDone'),
        },
      )
      state.steps += 1
      return { attempts, pair, booked, doubled, once }
    },
  })

  /** Fails at its end, for a business reason, and takes everything back. */
  const Undone = defineProcess(domain, 'Undone', {
    state: z.object({ done: z.array(z.string()).default([]) }),
    async execute(ctx, state) {
      const kept = async (name: string) => {
        const reference = await ctx.step(
          name,
          async () => {
            await called(ctx.id, name)
            return `${name} of ${ctx.id}`
          },
          {
            async compensate(result) {
              if (result !== `${name} of ${ctx.id}`) throw new Error(`given the result of another step: ${result}`)
              await undone(ctx.id, name)
            },
          },
        )
        state.done.push(reference.slice(0, name.length))
      }
      await kept('first')
      await Promise.all([kept('second'), kept('third')])
      await ctx.transaction(
        'book',
        async (tx) => {
          await tx.query('insert into booking values ($1, $2)', [ctx.id, 'undone'])
        },
        { compensate: () => undone(ctx.id, 'book') },
      )
      await ctx.sleep('pause', '20ms')
      throw new BusinessError('it was not to be', { code: 'NOT_TO_BE' })
    },
  })

  /** A call that must never be repeated and about which nobody can be asked. */
  const Careful = defineProcess(domain, 'Careful', {
    state: z.object({}),
    async execute(ctx) {
      await ctx.step('before', () => called(ctx.id, 'before'))
      await ctx.step('pay', () => called(ctx.id, 'pay', ['before']), { atMostOnce: true })
      await ctx.step('after', () => called(ctx.id, 'after', ['pay']))
      return 'paid'
    },
  })

  return {
    Journey,
    Undone,
    Careful,
    registerAll(hf: Holdfast): void {
      hf.register(Child)
      hf.register(Journey)
      hf.register(Undone)
      hf.register(Careful)
    },
  }
}
