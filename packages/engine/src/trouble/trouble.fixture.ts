import { numbered, openTestBus, runDispatchCycle, waitFor } from '@holdfast/testing/internal'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { defineDispatch, processTarget } from '../dispatch/index.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'

/** The operator of these tests. */
export const by = { actor: 'ann', reason: 'ticket 7' }

const named = numbered('trouble')
const past = new Date('2020-01-01T00:00:00Z')

/** An installation with work of every model that fails until it is repaired. */
export async function openTrouble() {
  const bus = await openTestBus()
  await bus.hf.run({ poll: '20ms' })
  const { hf } = bus

  /** A definition of each model, all of one name. What is in `broken` fails: `pay`, `reserve`, `undo`. */
  function failing() {
    const type = named()
    const broken = new Set(['pay'])
    const calls: string[] = []
    const call = (what: string) => {
      calls.push(what)
      if (broken.has(what)) throw new PermanentError(`${what} does not work`, { code: 'BROKEN' })
      return `${what} done`
    }
    const Pay = defineCommand(type, type, { data: z.object({ n: z.number() }), result: z.string() })
    hf.handle(Pay, () => call('pay'))
    const Payment = defineProcess(type, type, {
      state: z.object({ n: z.number() }),
      async execute(ctx) {
        await ctx.step('reserve', () => call('reserve'), { compensate: () => void call('undo') })
        const paid = await ctx.step('pay', () => call('pay'))
        return `${paid}, and told`
      },
    })
    hf.register(Payment)
    const Settlement = defineDispatch('default', type, {
      target: processTarget(Payment),
      settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1 },
    })
    const handler = `${type}.call`
    const Order = defineWorkflow('test', type, { dlq: true })
      .step('reserve', handler)
      .onFailure('undo', handler)
      .step('pay', handler)
      .step('tell', handler)
      .build()
    hf.handle(handler, (input, { stepName, compensation }) => {
      call(compensation ?? stepName)
      return [input, stepName]
    })

    const troubles = (count: number) =>
      waitFor(`${count} need a person`, async () => (await hf.trouble.count({ type })) === count)
    const send = async () => (await hf.send(Pay, { n: 1 })).id
    const startProcess = async () => (await hf.start(Payment, { n: 1 })).id
    const startWorkflow = async () => (await hf.start(Order, 1)).id
    const schedule = async (key: string) => {
      await hf.schedule(Settlement, { key, context: { n: 1 }, startAt: past })
      // Without what it is to be executed with, it is given up at once.
      await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Settlement.name])
      await runDispatchCycle(bus.db, Settlement)
      return key
    }
    /** One of each model, in trouble. */
    async function oneOfEach() {
      const before = await hf.trouble.count({ type })
      const ids = {
        commands: await send(),
        processes: await startProcess(),
        workflows: await startWorkflow(),
        dispatch: await schedule(`${type}-1`),
      }
      await troubles(before + 4)
      return ids
    }
    return {
      type,
      broken,
      calls,
      Pay,
      Payment,
      Settlement,
      Order,
      send,
      startProcess,
      startWorkflow,
      schedule,
      oneOfEach,
      troubles,
    }
  }
  return { bus, hf, failing }
}
