import { openTestBus, waitFor } from '@holdfast/testing/internal'
import { z } from 'zod'
import { TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import type { ProcessOf } from './reference.js'
import type { ProcessStatus } from './states.js'

/** The operator of these tests. */
export const by = { actor: 'ann', reason: 'ticket 7' }
export const empty = z.object({})

/** An installation of a test file's own, and what its tests ask of it. */
export async function openOperations() {
  const bus = await openTestBus()
  const processes = () => bus.hf.processes
  const work = (domain: string) => bus.hf.run({ domains: [domain], poll: '20ms' })
  const get = (process: ProcessOf<never>, id: string) => bus.hf.process({ ...process }, id).get()
  const until = (process: ProcessOf<never>, id: string, status: ProcessStatus) =>
    waitFor(`it is ${status}`, async () => (await get(process, id)).status === status)
  const events = async (process: ProcessOf<never>, id: string) =>
    (await bus.hf.process({ ...process }, id).history()).flatMap(({ event }) => event ?? [])

  /** A process whose step fails until it is told otherwise, and whose response corrects the state. */
  function repairable(domain: string, options: { maxAttempts?: number } = {}) {
    const calls: string[] = []
    const failing = new Set<string>()
    const undone: string[] = []
    const Payment = defineProcess(domain, 'Payment', {
      state: z.object({ iban: z.string(), when: z.date().optional() }),
      responses: {
        corrected: {
          data: z.object({ iban: z.string().length(4) }),
          apply: (state, { iban }) => {
            state.iban = iban
          },
        },
      },
      async execute(ctx, state) {
        await ctx.step('reserve', () => void calls.push('reserve'), { compensate: () => void undone.push('reserve') })
        return ctx.step(
          'pay',
          ({ attempt }) => {
            calls.push(`pay ${state.iban} ${attempt}`)
            if (failing.has(state.iban)) throw new TransientError(`no route to '${state.iban}'`, { code: 'NO_ROUTE' })
            return `paid ${state.iban}`
          },
          {
            retry: { maxAttempts: options.maxAttempts ?? 1, delay: '1ms' },
          },
        )
      },
    })
    bus.hf.register(Payment)
    return { Payment, calls, failing, undone }
  }

  return { bus, processes, work, get, until, events, repairable }
}
