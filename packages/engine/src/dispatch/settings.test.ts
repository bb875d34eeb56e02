import { numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { parseDuration } from '../kernel/duration/duration.js'
import { defineProcess } from '../processes/index.js'
import { defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const itemType = numbered('config')
const past = new Date('2020-01-01T00:00:00Z')
const Settle = defineProcess('config', 'Settle', { state: z.object({}), execute: async () => undefined })

async function settlement(config: DispatchSettings = {}, items = 0) {
  const Settlement = defineDispatch(itemType(), 'Items', { target: processTarget(Settle), settings: config })
  const due = Array.from({ length: items }, (_, n) => ({ key: `PAY-${n}`, context: {}, startAt: past }))
  await bus.hf.schedule(
    Settlement,
    due.length > 0 ? due : [{ key: 'x', context: {}, startAt: new Date('2031-01-01T00:00:00Z') }],
  )
  return Settlement
}

test('D-02 the configuration begins with the values of the definition, or else with the defaults', async () => {
  const Settlement = await settlement({ batchSize: 50 })
  expect(await bus.hf.dispatch.settings(Settlement)).toMatchObject({
    enabled: true,
    batchSize: 50,
    dispatchInterval: 5_000,
    jitterWindow: 4_000,
    preStartBuffer: 0,
    maxDispatchRetries: 5,
    staleClaimThreshold: 120_000,
    maxStaleRecoveryPerCycle: 100,
    execWorkflowType: null,
    execTaskQueue: null,
    rateLimitKey: null,
  })
})

test('D-02 a definition that is registered again does not undo what operators have set', async () => {
  const Settlement = await settlement({ batchSize: 50 })
  await bus.hf.dispatch.configure(Settlement, { batchSize: 70 }, by)
  const other = await openTestBus({ connectionString: bus.connectionString })
  await other.hf.schedule(Settlement, { key: 'y', context: {}, startAt: past })
  expect(await other.hf.dispatch.settings(Settlement)).toMatchObject({ batchSize: 70 })
  await other.close()
})

test('D-02 the next cycle uses a changed setting, also one changed by SQL, and the change is on record', async () => {
  const Settlement = await settlement({ batchSize: 3 }, 20)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 3 })
  await bus.hf.dispatch.configure(Settlement, { batchSize: 4 }, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 7 })
  await bus.sql('update holdfast.dispatch_config set batch_size = 5 where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 12 })
  const changes = (await bus.hf.auditTrail({ name: Settlement.name })).filter(({ event }) => event === 'CONFIGURED')
  expect(changes.slice(-2)).toMatchObject([
    { actor: 'ann', reason: 'ticket 7', before: { batch_size: 3 }, after: { batch_size: 4 } },
    { actor: expect.any(String), reason: 'changed by SQL', before: { batch_size: 4 }, after: { batch_size: 5 } },
  ])
})

test.each([
  ['batchSize', 'batch_size', 0, 'must be from 1 to 100000, not 0'],
  ['maxDispatchRetries', 'max_dispatch_retries', 0, 'must be from 1 to 1000, not 0'],
  ['execWorkflowType', 'exec_workflow_type', 'nobody/Knows', 'names `nobody/Knows`, which no worker has registered'],
  ['rateLimitKey', 'rate_limit_key', 'no_such_limit', 'names `no_such_limit`, which is no rate limit'],
] as const)(
  'D-02 %s out of range is refused by the API and by the table with the same sentence',
  async (option, column, value, sentence) => {
    const Settlement = await settlement()
    const before = await bus.hf.dispatch.settings(Settlement)
    await expect(bus.hf.dispatch.configure(Settlement, { [option]: value }, by)).rejects.toMatchObject({
      code: 'HF_INVALID_OPTION',
      message: `dispatch.configure ${Settlement.name}: option \`${option}\` ${sentence}`,
    })
    const update = `update holdfast.dispatch_config set ${column} = $1 where item_type = $2`
    await expect(bus.sql(update, [value, Settlement.name])).rejects.toMatchObject({
      code: '23514',
      message: `${column} ${sentence}`,
    })
    expect(await bus.hf.dispatch.settings(Settlement)).toEqual(before)
  },
)

test.each([
  ['dispatchInterval', 'dispatch_interval_secs', '2s', 2],
  ['jitterWindow', 'jitter_window_ms', '1s', 1000],
  ['preStartBuffer', 'pre_start_buffer_mins', '90s', 1.5],
  ['staleClaimThreshold', 'stale_claim_threshold_mins', '3m', 3],
] as const)('U-08 D-02 %s is a duration, whatever the unit of its column', async (option, column, duration, stored) => {
  const Settlement = await settlement()
  await bus.hf.dispatch.configure(Settlement, { [option]: duration }, by)
  const [row] = await bus.sql<Record<string, unknown>>(
    `select ${column}::float8 as stored from holdfast.dispatch_config where item_type = $1`,
    [Settlement.name],
  )
  expect(row).toEqual({ stored })
  const { [option]: shown } = await bus.hf.dispatch.settings(Settlement)
  expect(shown).toBe(parseDuration(duration, option))
  for (const wrong of [-1, '2d', 'soon', null]) {
    await expect(bus.hf.dispatch.configure(Settlement, { [option]: wrong as never }, by)).rejects.toMatchObject({
      code: expect.stringMatching(/^HF_INVALID_(OPTION|DURATION)$/),
      message: expect.stringContaining(option),
    })
  }
})

test('U-08 D-02 a claim cannot be stale at once', async () => {
  const Settlement = await settlement()
  await expect(bus.hf.dispatch.configure(Settlement, { staleClaimThreshold: 0 }, by)).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
    message: expect.stringContaining('`staleClaimThreshold` must be from 60 ms to 1 d, not 0'),
  })
})

test('D-02 the table itself refuses what the trigger does not check', async () => {
  const Settlement = await settlement()
  await bus.sql('alter table holdfast.dispatch_config disable trigger user')
  const update = 'update holdfast.dispatch_config set batch_size = 0 where item_type = $1'
  await expect(bus.sql(update, [Settlement.name])).rejects.toMatchObject({ code: '23514' })
  await bus.sql('alter table holdfast.dispatch_config enable trigger user')
})

test('D-02 a value that is not a number, an unknown name, an unknown type and a change without an actor are refused', async () => {
  const Settlement = await settlement()
  const configure = (settings: object, who = by) => bus.hf.dispatch.configure(Settlement, settings as never, who)
  await expect(configure({ batchSize: '5' })).rejects.toThrow('option `batchSize` must be a number')
  await expect(configure({ batchSize: 1.5 })).rejects.toThrow('must be a whole number')
  await expect(configure({ enabled: 0 })).rejects.toThrow('option `enabled` must be true or false')
  await expect(configure({ batchsize: 5 })).rejects.toThrow('did you mean `batchSize`?')
  await expect(configure({ batchSize: null })).rejects.toThrow('option `batchSize`')
  await expect(configure({ batchSize: 5 }, { actor: 'ann', reason: '' })).rejects.toMatchObject({
    code: 'HF_INVALID_ACTOR',
  })
  await expect(bus.hf.dispatch.configure('nobody/Knows', {}, by)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_DEFINITION',
  })
  await expect(bus.hf.dispatch.settings('nobody/Knows')).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
  await expect(settlement({ batchSize: 0 })).rejects.toThrow(
    'settings: option `batchSize` must be from 1 to 100000, not 0',
  )
})

test('D-02 with a rate limit a cycle claims what is granted, and starts lie on its slots', async () => {
  const key = `limit_${itemType()}`
  await bus.hf.limits.set(key, { ticketsPerSecond: 2, burst: 2 }, by)
  const Settlement = await settlement({ rateLimitKey: key, dispatchInterval: '5s', batchSize: 500 }, 100)
  await runDispatchCycle(bus.db, Settlement)
  const starts = await bus.sql<{ ms: number }>(
    `select extract(epoch from start_at - min(start_at) over ())::float8 * 1000 as ms
     from holdfast.process_detail join holdfast.process using (id)
     where dispatch_type = $1 order by start_at`,
    [Settlement.name],
  )
  // Two at once, then two per second for the five seconds of a cycle, less what it took to ask.
  const slots = [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  expect(starts.length).toBeGreaterThan(2)
  expect(starts.map(({ ms }) => Math.round(ms / 500))).toEqual(slots.slice(0, starts.length))
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({
    READY: 100 - starts.length,
    DISPATCHED: starts.length,
  })
})

test('D-02 a missing rate limit stops the release and is reported; once it is configured again, the release resumes', async () => {
  const key = `limit_${itemType()}`
  await bus.hf.limits.set(key, { ticketsPerSecond: 1_000 }, by)
  const Settlement = await settlement({ rateLimitKey: key }, 3)
  await bus.hf.limits.remove(key, by)
  await runDispatchCycle(bus.db, Settlement)
  const problem = 'select last_error, leased_at from holdfast.dispatch_cycle where item_type = $1'
  expect(await bus.sql(problem, [Settlement.name])).toEqual([
    { last_error: `there is no rate limit \`${key}\``, leased_at: null },
  ])
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 3 })
  await bus.hf.dispatch.configure(Settlement, { rateLimitKey: null }, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 3 })
})

test('D-02 another process may be named as what is started, and checks the context itself', async () => {
  const Other = defineProcess('config', 'Other', {
    state: z.object({ note: z.string().default('none') }),
    execute: async (_ctx, state) => state.note,
  })
  const worker = await bus.runProcesses(Other)
  const Settlement = await settlement({ jitterWindow: 0 }, 1)
  await bus.hf.dispatch.configure(Settlement, { execWorkflowType: 'config/Other' }, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.process(Other, `exec:${Settlement.name}:PAY-0:0`).result()).toBe('none')
  await waitFor('the item is completed', async () => (await bus.hf.dispatch.depth(Settlement)).COMPLETED === 1)
  await worker.stop()
})
