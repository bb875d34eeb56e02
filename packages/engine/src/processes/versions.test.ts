import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { Duration } from '../kernel/duration/duration.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
/** Another program on the same database, with other code. */
let newer: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  newer = await openTestBus({ connectionString: bus.connectionString })
})
afterAll(async () => {
  await newer.close()
  await bus.close()
})

const domain = numbered('versions')
const responses = { go: { data: z.null() } }

const define = (
  name: string,
  execute: (ctx: ProcessContext<{ go: z.ZodNull }>) => Promise<unknown>,
  options: { version?: number; mismatchGrace?: Duration } = {},
) =>
  defineProcess(name, 'Pay', {
    state: z.any(),
    responses,
    execute: async (ctx: ProcessContext<{ go: z.ZodNull }>) => execute(ctx),
    ...options,
  })

const waitAfter =
  (...steps: string[]) =>
  async (ctx: ProcessContext<{ go: z.ZodNull }>) => {
    for (const step of steps) await ctx.step(step, () => step)
    await ctx.event('go', 'go')
    return ctx.version
  }

test('P-18 older workers do not claim newer versions, and newer workers run both', async () => {
  const name = domain()
  const V1 = define(name, waitAfter('a'))
  const V2 = define(name, async (ctx) => (ctx.version === 1 ? waitAfter('a')(ctx) : waitAfter('a', 'b')(ctx)), {
    version: 2,
  })
  const old = await bus.hf.start(V1, {})
  const young = await newer.hf.start(V2, {})
  await bus.runProcesses(V1)
  await bus.hf.process(V1, old.id).respond('go', null)
  await bus.hf.process(V1, young.id).respond('go', null)
  expect((await bus.rests(old.id, 'COMPLETED')).result).toBe(1)
  expect(await bus.process(young.id)).toMatchObject({ status: 'WAITING_FOR_ASYNC', leased_by: null })
  const another = await bus.hf.start(V1, {})
  await newer.runProcesses(V2)
  expect((await bus.rests(young.id, 'COMPLETED')).result).toBe(2)
  await bus.hf.process(V1, another.id).respond('go', null)
  expect((await bus.rests(another.id, 'COMPLETED')).result).toBe(1)
})

test.each<[string, (ctx: ProcessContext<{ go: z.ZodNull }>) => Promise<unknown>, RegExp]>([
  ['another step', waitAfter('renamed'), /recorded STEP `a`, found STEP `renamed`/],
  ['a step before it', waitAfter('new', 'a'), /recorded STEP `a`, found STEP `new`/],
  ['another kind', (ctx) => ctx.sideEffect('a', () => 'a'), /recorded STEP `a`, found SIDE_EFFECT `a`/],
  ['nothing', async () => 'ended', /recorded STEP `a`, found that no call is open/],
])('P-18 code that does not fit goes to troubleshooting after a grace time: %s', async (_, changed, message) => {
  const name = domain()
  const Before = define(name, waitAfter('a'))
  const After = define(name, changed, { mismatchGrace: '100ms' })
  const { id } = await bus.hf.start(Before, {})
  await newer.runProcesses(After)
  await bus.hf.process(Before, id).respond('go', null)
  const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_code).toBe('NON_DETERMINISM')
  expect(error_message).toMatch(message)
})

test('P-18 within the grace time another worker whose code fits goes on', async () => {
  const name = domain()
  const Fits = define(name, waitAfter('a'))
  const Changed = define(name, waitAfter('renamed'), { mismatchGrace: '1m' })
  const { id } = await bus.hf.start(Fits, {})
  const wrong = await newer.runProcesses(Changed)
  await bus.hf.process(Fits, id).respond('go', null)
  await waitFor('it was given back', async () => (await bus.process(id)).error_code === 'NON_DETERMINISM')
  await wrong.stop()
  // What readers see is as the last one that fitted left it.
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_ASYNC', state: {} })
  await bus.runProcesses(Fits)
  await bus.sql('update holdfast.process set due_at = holdfast.now() where id = $1', [id])
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ error_code: null, result: 1 })
})

test('P-18 a process whose code does not fit can be cancelled', async () => {
  const name = domain()
  const { id } = await bus.hf.start(define(name, waitAfter('a')), {})
  const Changed = define(name, waitAfter('renamed'), { mismatchGrace: 0 })
  await newer.runProcesses(Changed)
  await bus.sql('update holdfast.process set due_at = holdfast.now() where id = $1', [id])
  await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(await bus.cancel(id, 'COMPENSATE')).toBe('done')
  await waitFor('it was looked at', async () => (await bus.process(id)).lease_epoch > 5)
  await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(await bus.cancel(id, 'PLAIN')).toBe('done')
  await bus.rests(id, 'CANCELLED')
})

test('P-18 a response that the definition no longer has is a mismatch too, also without a replay', async () => {
  const name = domain()
  const Before = defineProcess(name, 'Pay', {
    state: z.any(),
    responses: { ...responses, gone: { data: z.null() } },
    execute: async (ctx) => void (await ctx.event('go', 'go')),
  })
  const After = define(name, async (ctx) => void (await ctx.event('go', 'go')), { mismatchGrace: 0 })
  const { id } = await bus.hf.start(Before, {})
  await bus.hf.process(Before, id).respond('gone', null)
  await newer.runProcesses(After)
  const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_code).toBe('NON_DETERMINISM')
  expect(error_message).toContain('gone')
})

/** As if its worker had died for the given time while it ran alone. */
async function diedAlone(id: string, times: number, progress = '1/0'): Promise<void> {
  await bus.sql(
    `update holdfast.process set lease_epoch = 9, leased_by = 'dead', leased_at = holdfast.now(), due_at = holdfast.now()
     where id = $1`,
    [id],
  )
  await bus.sql(
    `insert into holdfast.lost_claim (source, id, epoch, progress, state, lost_alone, at)
     values ('processes', $1, 9, $2, 'alone', $3, holdfast.now())`,
    [id, progress, times - 1],
  )
}

test('P-13 a process that ends its workers five times without recording anything goes to troubleshooting', async () => {
  const name = domain()
  let executions = 0
  const Kill = define(name, async () => {
    executions += 1
  })
  const { id } = await bus.hf.start(Kill, {}, { immediate: false })
  await diedAlone(id, 5)
  await bus.runProcesses(Kill)
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({ error_code: 'CRASH_LOOP', due_at: null })
  expect(executions).toBe(0)
})

test('P-13 a process that recorded something since its last crash is run again', async () => {
  const name = domain()
  const Kill = define(name, async () => undefined)
  const { id } = await bus.hf.start(Kill, {}, { immediate: false })
  await diedAlone(id, 5, '1/7')
  await bus.runProcesses(Kill)
  await bus.rests(id, 'COMPLETED')
  await waitFor('nothing is left of it', async () => {
    return (await bus.sql('select from holdfast.lost_claim where id = $1', [id])).length === 0
  })
})

test('P-13 a crash loop can be cancelled without being run again', async () => {
  const name = domain()
  let executions = 0
  const Kill = define(name, async () => {
    executions += 1
  })
  const { id } = await bus.hf.start(Kill, {}, { immediate: false })
  await diedAlone(id, 5)
  expect(await bus.cancel(id)).toBe('done')
  await bus.runProcesses(Kill)
  await bus.rests(id, 'CANCELLED')
  expect(executions).toBe(0)
})

test('P-17 work of a dead worker is claimed again within one lease', async () => {
  const name = domain()
  const hang = gate()
  let calls = 0
  const Slow = define(name, async (ctx) =>
    ctx.step('slow', async () => {
      calls += 1
      if (calls === 1) await hang.passed
      return 'done'
    }),
  )
  const first = await bus.runProcesses(Slow, { lease: '1h' })
  const { id } = await bus.hf.start(Slow, {}, { immediate: false })
  await waitFor('it runs', () => calls === 1)
  first.stopNow()
  await bus.endLease(id)
  await newer.runProcesses(Slow)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('done')
  // What the first one comes back with changes nothing.
  hang.open()
  expect(await bus.history(id)).toEqual(['STEP slow STARTED', 'STEP slow COMPLETED'])
})
