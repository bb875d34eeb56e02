import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, defineWorkflow, holdfast } from 'holdfast'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'

let connectionString: string
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
})

/** User code that neither ends nor heeds its signal. */
const hang = () => new Promise<never>(() => undefined)
const open = () => holdfast({ connectionString, logger: false, abortGrace: '50ms', migrate: false })
/** Long before any default limit of user code, and long after everything that `close` has to do. */
const SOON = 20_000

test('K-23 `close` returns although handlers and steps of all models hang for ever', async () => {
  const hf = await open()
  let calls = 0
  const hanging = () => {
    calls += 1
    return hang()
  }
  const Command = defineCommand('hanging', 'Do', { data: z.boolean() })
  const Step = defineProcess('hanging', 'Step', {
    state: z.any(),
    execute: async (ctx) => ctx.step('hang', hanging, { timeout: '1h' }),
  })
  const Transaction = defineProcess('hanging', 'Transaction', {
    state: z.any(),
    execute: async (ctx) => ctx.transaction('hang', hanging, { timeout: '1h' }),
  })
  const Flow = defineWorkflow('test', 'hanging').step('hang', 'hanging', { timeout: '1h' }).build()
  hf.handle(Command, (within, ctx) => (within ? ctx.transaction(hanging) : hanging()))
  hf.register(Step)
  hf.register(Transaction)
  hf.register(Flow)
  hf.handle('hanging', hanging)
  const worker = await hf.run({ poll: '20ms', lease: '1h' })
  await hf.send(Command, false)
  await hf.send(Command, true)
  await hf.start(Step, {}, { immediate: false })
  await hf.start(Transaction, {}, { immediate: false })
  await hf.start(Flow, null)
  await waitFor('all hang', () => calls === 5)

  const began = performance.now()
  const stopped = worker.stop('100ms')
  await hf.close()
  expect(performance.now() - began).toBeLessThan(SOON)
  expect((await stopped).abandoned).toBeGreaterThanOrEqual(5)
}, 120_000)

test('K-23 `close` returns although a process that `start` executes in its caller hangs for ever', async () => {
  const hf = await open()
  let called = false
  const Step = defineProcess('hanging_here', 'Step', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step(
        'hang',
        () => {
          called = true
          return hang()
        },
        { timeout: '1h' },
      ),
  })
  hf.register(Step)
  void hf.start(Step, {}).catch(() => undefined)
  await waitFor('it hangs', () => called)
  const began = performance.now()
  await hf.close('200ms')
  expect(performance.now() - began).toBeLessThan(SOON)
}, 120_000)

test.each([-1, 'soon', Number.NaN, null])(
  'K-13 `close` refuses the timeout %s, and the installation stays open',
  async (timeout) => {
    const hf = await open()
    await expect(hf.close(timeout as never)).rejects.toThrow(expect.objectContaining({ code: 'HF_INVALID_DURATION' }))
    expect(await hf.pauses()).toEqual([])
    await hf.close()
  },
)
