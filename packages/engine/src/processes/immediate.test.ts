import { numbered, openTestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { assemble } from '../holdfast.js'
import { openDatabase } from '../kernel/database/open.js'
import { silentLogger } from '../kernel/logger.js'
import { defineProcess, type ProcessOptions } from './define.js'

const bus = await openTestBus({ immediate: true })
afterAll(() => bus.close())

const domain = numbered('immediate')
const state = z.object({})

function pay(options: Partial<Pick<ProcessOptions<typeof state, Record<never, never>, string>, 'immediate'>> = {}) {
  return defineProcess(domain(), 'Pay', { state, execute: async () => 'paid', ...options })
}

test('U-03 start runs a process in the caller only in a program that has registered it', async () => {
  const Pay = pay()
  const elsewhere = await bus.hf.start(Pay, {})
  expect(await bus.process(elsewhere.id)).toMatchObject({ status: 'PENDING', leased_by: null })
  bus.hf.register(Pay)
  const here = await bus.hf.start(Pay, {})
  expect(await here.get()).toMatchObject({ status: 'COMPLETED', result: 'paid' })
  expect(await bus.process(elsewhere.id)).toMatchObject({ status: 'PENDING', leased_by: null })
})

test('U-03 another definition of the name that is registered does not run in the caller', async () => {
  const Pay = pay()
  bus.hf.register(Pay)
  const Same = defineProcess(Pay.domain, Pay.type, { state, execute: async () => 'by other code' })
  const started = await bus.hf.start(Same, {})
  expect((await started.get()).status).toBe('PENDING')
})

test('U-03 immediate: false on the call, the definition or the installation leaves it to a worker', async () => {
  const Pay = pay()
  const Never = pay({ immediate: false })
  bus.hf.register(Pay)
  bus.hf.register(Never)
  const tier = assemble(await openDatabase({ connectionString: bus.connectionString }), {
    logger: silentLogger,
    immediate: false,
  })
  tier.register(Pay)
  const left = [
    await bus.hf.start(Pay, {}, { immediate: false }),
    await bus.hf.start(Never, {}),
    await bus.hf.start(Never, {}, { immediate: true }),
    await tier.start(Pay, {}),
    await tier.start(Pay, {}, { immediate: true }),
  ]
  for (const started of left) expect((await started.get()).status).toBe('PENDING')
  await tier.close()
  await bus.hf.run({ domains: [Pay.domain, Never.domain], poll: '20ms' })
  for (const { id } of left) await bus.rests(id, 'COMPLETED')
})

test('U-02 delay: not before that time, and not together with startAt', async () => {
  const Pay = pay()
  bus.hf.register(Pay)
  const later = await bus.hf.start(Pay, {}, { delay: '1h' })
  const [row] = await bus.sql<{ minutes: number }>(
    `select round(extract(epoch from due_at - created_at) / 60)::int as minutes from holdfast.process where id = $1`,
    [later.id],
  )
  expect(row).toEqual({ minutes: 60 })
  const both = { delay: '1h', startAt: new Date() } as const
  await expect(bus.hf.start(Pay, {}, both)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('U-03 a start that no worker can run is logged, and why() says it', async () => {
  const lines: Record<string, unknown>[] = []
  const logger = { ...silentLogger, warn: (line: object) => void lines.push({ ...line }) }
  const alone = await openTestBus({ connectionString: bus.connectionString, logger, immediate: true })
  const Pay = pay()
  const started = await alone.hf.start(Pay, {})
  expect(await started.why()).toMatchObject({ reason: 'noWorker', text: expect.stringContaining(Pay.name) })
  await waitFor('it is logged', () =>
    lines.some(({ event, model, type }) => event === 'no_live_worker' && model === 'processes' && type === Pay.name),
  )
  await alone.close()
})
