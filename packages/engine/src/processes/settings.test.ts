import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'slow bank' }
const waiting = (domain: string) => {
  const Waits = defineProcess(domain, 'Waits', {
    state: z.object({}),
    deadlineAction: 'tsq',
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  bus.hf.register(Waits)
  return Waits
}
const settingsOf = async (domain: string) =>
  (await bus.hf.processes.settings()).find((settings) => settings.domain === domain)

test('P-23 a wait timeout that an operator sets applies to waits without their own, until it is reset', async () => {
  const Waits = waiting('set-wait')
  const timeout = async () => {
    const { id } = await bus.hf.start(Waits, {})
    const timeline = await bus.hf.process(Waits, id).history()
    return timeline.find(({ type }) => type === 'WAIT')?.timeout
  }
  expect(await timeout()).toBe(3_600_000)
  await bus.hf.processes.configure(Waits, { waitTimeout: '4h' }, by)
  expect(await timeout()).toBe(4 * 3_600_000)
  await bus.hf.processes.configure(Waits, { waitTimeout: null }, by)
  expect(await timeout()).toBe(3_600_000)
})

test('P-23, P-15 a deadline action that an operator sets is what happens', async () => {
  const Waits = waiting('set-deadline')
  await bus.hf.processes.configure(Waits, { deadlineAction: 'fail' }, by)
  await bus.hf.run({ domains: ['set-deadline'], poll: '20ms' })
  const { id } = await bus.hf.start(Waits, {}, { deadline: '1h' })
  await bus.moveClock(3_600_001)
  await waitFor('it failed', async () => (await bus.hf.process(Waits, id).get()).status === 'FAILED')
})

test('P-23 lease and poll are taken by workers that start from then on', async () => {
  const Hangs = defineProcess('set-lease', 'Hangs', {
    state: z.object({}),
    execute: () => new Promise<void>(() => undefined),
  })
  bus.hf.register(Hangs)
  await bus.hf.processes.configure(Hangs, { lease: '10m', poll: '20ms' }, by)
  const worker = await bus.hf.run({ domains: ['set-lease'], notify: false })
  const { id } = await bus.hf.start(Hangs, {}, { immediate: false })
  const { dueAt, executingSince } = await waitFor('it is claimed', async () => {
    const record = await bus.hf.process(Hangs, id).get()
    return record.leasedBy ? record : undefined
  })
  expect((dueAt?.getTime() ?? 0) - (executingSince?.getTime() ?? 0)).toBe(600_000)
  expect((await bus.hf.processes.list({ domain: 'set-lease', status: 'EXECUTING' })).items).toHaveLength(1)
  worker.stopNow()
})

test('P-23, K-12 settings are listed, and each change is audited with before and after', async () => {
  const Waits = waiting('set-audit')
  expect(await settingsOf('set-audit')).toBeUndefined()
  await bus.hf.processes.configure(Waits, { waitTimeout: '2h', concurrency: 5 }, by)
  await bus.hf.processes.configure({ domain: 'set-audit', type: 'Waits' }, { concurrency: null, poll: '1s' }, by)
  expect(await settingsOf('set-audit')).toMatchObject({
    type: 'Waits',
    waitTimeout: 7_200_000,
    deadlineAction: null,
    concurrency: null,
    lease: null,
    poll: 1_000,
    updatedAt: expect.any(Date),
  })
  const trail = await bus.hf.auditTrail({ name: 'set-audit/Waits' })
  expect(trail).toMatchObject([
    { event: 'CONFIGURED', ...by, before: {}, after: { wait_timeout_ms: 7_200_000, concurrency: 5 } },
    { event: 'CONFIGURED', before: { concurrency: 5 }, after: { wait_timeout_ms: 7_200_000, poll_ms: 1_000 } },
  ])
})

test('P-23 invalid settings and changes without an actor are refused', async () => {
  const Waits = waiting('set-bad')
  const wrong: readonly [object, string][] = [
    [{ waitTimeout: 'long' }, 'HF_INVALID_DURATION'],
    [{ waitTimeout: 0 }, 'HF_INVALID_OPTION'],
    [{ deadlineAction: 'EXPLODE' }, 'HF_INVALID_OPTION'],
    [{ concurrency: 0 }, 'HF_INVALID_OPTION'],
    [{ lease: '1ms' }, 'HF_INVALID_OPTION'],
    [{ poll: '1ms' }, 'HF_INVALID_OPTION'],
    [{ concurency: 1 }, 'HF_UNKNOWN_OPTION'],
  ]
  for (const [settings, code] of wrong) {
    await expect(bus.hf.processes.configure(Waits, settings, by)).rejects.toMatchObject({ code })
  }
  await expect(bus.hf.processes.configure(Waits, {}, { actor: 'ann', reason: '' })).rejects.toMatchObject({
    code: 'HF_INVALID_ACTOR',
  })
  const misspelt = bus.hf.processes.configure({ domain: 'set-bad', type: 'Nope' }, { concurrency: 1 }, by)
  await expect(misspelt).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
  expect(await settingsOf('set-bad')).toBeUndefined()
})
