import { numbered, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('process-limits')
const ann = { actor: 'ann', reason: 'as agreed with them' }

function calling(key: string) {
  const attempts: number[] = []
  const Calling = defineProcess(domain(), 'Calling', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step('call', { run: ({ attempt }) => attempts.push(attempt), rateLimit: { key, maxWait: '1ms' } }),
  })
  return { Calling, attempts }
}

test('P-13 R-02 a step without a slot in time is tried again later, and no attempt is used up', async () => {
  await bus.hf.limits.set('slow', { ticketsPerSecond: 2, burst: 1 }, ann)
  expect(await bus.hf.limits.tryAcquire('slow')).toBe(true)
  const { Calling, attempts } = calling('slow')
  const { id, status } = await bus.hf.start(Calling, {})
  expect([status, attempts]).toEqual(['WAITING_FOR_RETRY', []])
  expect(await bus.history(id)).toEqual(['STEP call WAITING_RETRY'])
  await bus.runProcesses(Calling)
  // One attempt is all it has: the refused ones were none.
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(1)
  expect(attempts).toEqual([1])
})

test('P-02 R-03 a step under a limit that nobody has configured needs a person, and goes on when it is', async () => {
  const { Calling, attempts } = calling('nobody-knows')
  const { id, status } = await bus.hf.start(Calling, {})
  expect([status, attempts]).toEqual(['WAITING_FOR_TSQ', []])
  const { error } = await bus.hf.processes.get(Calling, id)
  expect(error?.message).toContain('HF_UNKNOWN_RATE_LIMIT')
  await bus.hf.limits.set('nobody-knows', { ticketsPerSecond: 100 }, ann)
  await bus.runProcesses(Calling)
  await bus.hf.processes.retry(Calling, id, ann)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(1)
})
