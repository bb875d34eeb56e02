import { gate, openTestBus, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

test('P-10 close waits for a process that runs in its starter: its call is on record, and no inquiry is needed', async () => {
  const other = await openTestBus()
  const bus = await openTestBus({ connectionString: other.connectionString })
  const called = gate()
  const answered = gate()
  let seconds = 0
  const Pay = defineProcess('closing', 'Pay', {
    state: z.any(),
    async execute(ctx) {
      await ctx.step(
        'pay',
        async () => {
          called.open()
          await answered.passed
          return 'paid'
        },
        { atMostOnce: true },
      )
      await ctx.step('second', () => {
        seconds += 1
      })
      return 'done'
    },
  })
  const started = bus.hf.start(Pay, {})
  await called.passed
  let closed = false
  const closing = bus.close().then(() => {
    closed = true
  })
  await waitFor('the stop has begun', async () => {
    await new Promise(setImmediate)
    return bus.hf.run().then(
      () => false,
      (error: unknown) => (error as { code?: string }).code === 'HF_STOPPED',
    )
  })
  expect(closed).toBe(false)
  answered.open()
  const { id } = await started
  await closing
  // Between two steps a process can go on anywhere: it is due at once.
  expect((await other.hf.process(Pay, id).get()).status).not.toBe('EXECUTING')
  expect(await other.history(id)).toEqual(['STEP pay STARTED', 'STEP pay COMPLETED'])
  expect(seconds).toBe(0)
  other.hf.register(Pay)
  await other.hf.run({ poll: '20ms' })
  expect(await other.hf.process(Pay, id).result()).toBe('done')
  expect(seconds).toBe(1)
  await other.close()
})
