import { isDeepStrictEqual } from 'node:util'
import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { defineProcess } from './define.js'

let lost = 0
const metrics: Metrics = {
  count: (name) => {
    if (name === 'leases_lost') lost += 1
  },
  observe: () => undefined,
  gauge: () => undefined,
}

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ metrics })
})
afterAll(() => bus.close())

const domain = numbered('process-limits')
const ann = { actor: 'ann', reason: 'as agreed with them' }

function calling(key: string) {
  const attempts: number[] = []
  const Calling = defineProcess(domain(), 'Calling', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step('call', ({ attempt }) => attempts.push(attempt), { rateLimit: { key, maxWait: '1ms' } }),
  })
  return { Calling, attempts }
}

test('P-13 R-02 a step without a slot in time is tried again later, and no attempt is used up', async () => {
  await bus.hf.limits.set('slow', { ticketsPerSecond: 2, burst: 1 }, ann)
  expect(await bus.hf.limits.tryAcquire('slow')).toBe(true)
  const { Calling, attempts } = calling('slow')
  const { id, status } = await (await bus.hf.start(Calling, {})).get()
  expect([status, attempts]).toEqual(['WAITING_FOR_RETRY', []])
  expect(await bus.history(id)).toEqual(['STEP call WAITING_RETRY'])
  await bus.runProcesses(Calling)
  // One attempt is all it has: the refused ones were none.
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(1)
  expect(attempts).toEqual([1])
})

test('P-02 R-03 a step under an unknown rate limit needs an operator, and continues once the limit is configured', async () => {
  const { Calling, attempts } = calling('nobody-knows')
  const { id, status } = await (await bus.hf.start(Calling, {})).get()
  expect([status, attempts]).toEqual(['WAITING_FOR_TSQ', []])
  const { error } = await bus.hf.process(Calling, id).get()
  expect(error?.message).toContain('HF_UNKNOWN_RATE_LIMIT')
  await bus.hf.limits.set('nobody-knows', { ticketsPerSecond: 100 }, ann)
  await bus.runProcesses(Calling)
  await bus.hf.process(Calling, id).retry(ann)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(1)
})

/** A step that waits for the next slot of a limit, which comes in ten minutes. */
async function waitingForSlot(options: { lease?: '1s' } = {}) {
  const key = domain()
  await bus.hf.limits.set(key, { ticketsPerSecond: 1 / 600, burst: 1 }, ann)
  expect(await bus.hf.limits.tryAcquire(key)).toBe(true)
  let calls = 0
  const undone: string[] = []
  const Calling = defineProcess(domain(), 'Calling', {
    state: z.any(),
    deadlineAction: 'fail',
    execute: async (ctx) =>
      ctx.step('call', () => (calls += 1), {
        rateLimit: { key, maxWait: '1h' },
        compensate: () => undone.push('undone'),
      }),
  })
  const worker = await bus.runProcesses(Calling, options)
  const reserved = async () =>
    (await bus.sql('select * from holdfast.rate_limit_bucket where resource_key = $1', [key]))[0]
  const before = await reserved()
  const start = async () => {
    const { id } = await bus.hf.start(Calling, {}, { immediate: false })
    await waitFor('it has reserved its slot', async () => !isDeepStrictEqual(await reserved(), before))
    return id
  }
  return { Calling, worker, start, undone, calls: () => calls }
}

test('K-23 a wait for a slot ends at a cancel: the step is neither called nor undone', async () => {
  const { start, calls, undone } = await waitingForSlot()
  const id = await start()
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect([calls(), undone]).toEqual([0, []])
})

test('K-23 a wait for a slot ends at the deadline', async () => {
  const { Calling, calls } = await waitingForSlot()
  const { id } = await bus.hf.start(Calling, {}, { immediate: false, deadline: '500ms' })
  expect((await bus.rests(id, 'FAILED')).error_code).toBe('DEADLINE_EXCEEDED')
  expect(calls()).toBe(0)
})

test('K-23 a wait for a slot ends when the worker is stopped: the process is released at once', async () => {
  const { start, worker, calls } = await waitingForSlot()
  const id = await start()
  await worker.stop()
  expect(await bus.process(id)).toMatchObject({ status: 'PENDING', leased_by: null })
  expect(calls()).toBe(0)
  expect(await bus.history(id)).toEqual([])
})

test('K-23 a worker that has lost its lease while it waited for a slot does not call', async () => {
  const { start, calls } = await waitingForSlot({ lease: '1s' })
  const id = await start()
  await bus.sql('update holdfast.process set lease_epoch = lease_epoch + 1 where id = $1', [id])
  await waitFor('the worker has dropped it', () => lost > 0)
  expect(calls()).toBe(0)
})
