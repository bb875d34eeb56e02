import { numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type Codec, createCodec } from '../kernel/codec/codec.js'
import { defineProcess } from '../processes/index.js'
import { defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const itemType = numbered('sched')
const hasStatus = (type: string, key: string, status: string) =>
  waitFor(`${key} is ${status}`, async () => (await bus.hf.item(type, key).get()).status === status)
const at = new Date('2031-01-31T16:00:00Z')
const settle = (state: z.ZodType = z.object({ amount: z.number() })) =>
  defineProcess('schedule', 'Settle', { state, execute: async () => undefined })
const settlement = () =>
  defineDispatch(itemType(), 'Items', {
    target: processTarget(
      defineProcess('schedule', 'Settle', { state: z.object({ amount: z.number() }), execute: async () => undefined }),
    ),
  })

test('D-01 a scheduled item is a context and a READY queue row; no execution is started', async () => {
  const Settlement = settlement()
  const scheduled = await bus.hf.schedule(Settlement, {
    key: 'PAY-1',
    context: { amount: 5 },
    startAt: at,
    initWorkflowId: 'init-1',
  })
  expect(scheduled).toMatchObject({ id: 'PAY-1', created: true, replaced: false })
  expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({
    status: 'READY',
    startAt: at,
    dueAt: at,
    context: { amount: 5 },
    contextVersion: 1,
    initWorkflowId: 'init-1',
    executionId: null,
    retryCount: 0,
  })
  expect(await bus.sql(`select from holdfast.process where dispatch_type = $1`, [Settlement.name])).toHaveLength(0)
})

test('D-01 scheduling the same item again schedules it once', async () => {
  const Settlement = settlement()
  const item = { key: 'PAY-1', context: { amount: 5 }, startAt: at }
  await bus.hf.schedule(Settlement, item)
  expect(await bus.hf.schedule(Settlement, item)).toMatchObject({ id: 'PAY-1', created: false, replaced: false })
  expect(await bus.hf.schedule(Settlement, [item, { ...item, key: 'PAY-2' }])).toEqual({
    created: 1,
    existing: 1,
    replaced: 0,
  })
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 2 })
})

test('D-01 another time or context is refused, and the first stays', async () => {
  const Settlement = settlement()
  const item = { key: 'PAY-1', context: { amount: 5 }, startAt: at }
  await bus.hf.schedule(Settlement, item)
  const later = new Date(at.getTime() + 1)
  await expect(bus.hf.schedule(Settlement, { ...item, startAt: later })).rejects.toMatchObject({
    code: 'HF_ITEM_CONFLICT',
    message: `item ${Settlement.name} PAY-1 is scheduled for another time already`,
  })
  await expect(bus.hf.schedule(Settlement, { ...item, context: { amount: 6 } })).rejects.toMatchObject({
    code: 'HF_ITEM_CONFLICT',
    message: `item ${Settlement.name} PAY-1 is scheduled with another context already`,
  })
  expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({ startAt: at, context: { amount: 5 } })
})

test('D-01 of many, one that is refused leaves none of the others scheduled', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, { key: 'old', context: { amount: 5 }, startAt: at })
  const many = ['new-1', 'old', 'new-2'].map((key) => ({ key, context: { amount: 6 }, startAt: at }))
  await expect(bus.hf.schedule(Settlement, many)).rejects.toMatchObject({ code: 'HF_ITEM_CONFLICT' })
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 1 })
})

test('D-01 replace replaces a READY item, on record, and is refused once it is no longer READY', async () => {
  const Settlement = settlement()
  const past = new Date('2020-01-01T00:00:00Z')
  const item = { key: 'PAY-1', context: { amount: 5 }, startAt: at }
  await bus.hf.schedule(Settlement, item)
  const replaced = { ...item, context: { amount: 6 }, startAt: past }
  expect(await bus.hf.schedule(Settlement, replaced, { replace: true })).toMatchObject({
    created: false,
    replaced: true,
  })
  expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({
    startAt: past,
    dueAt: past,
    context: { amount: 6 },
  })
  const trail = await bus.hf.auditTrail({ name: `${Settlement.name}/PAY-1` })
  expect(trail).toMatchObject([{ event: 'RESCHEDULED', before: { status: 'READY' }, after: { status: 'READY' } }])
  await runDispatchCycle(bus.db, Settlement)
  await expect(bus.hf.schedule(Settlement, item, { replace: true })).rejects.toMatchObject({
    code: 'HF_ITEM_CONFLICT',
    message: `item ${Settlement.name} PAY-1 is DISPATCHED and cannot be replaced any more`,
  })
})

test('U-02 D-01 a list that is empty, or has a key twice, is refused', async () => {
  const Settlement = settlement()
  const twice = [5, 6].map((amount) => ({ key: 'PAY-1', context: { amount }, startAt: at }))
  await expect(bus.hf.schedule(Settlement, twice)).rejects.toThrow('items[1].key` is that of items[0]')
  await expect(bus.hf.schedule(Settlement, [])).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('D-01 thousands in one call, and one by one from many callers at once', async () => {
  const Settlement = settlement()
  const items = Array.from({ length: 12_000 }, (_, n) => ({ key: `PAY-${n}`, context: { amount: n }, startAt: at }))
  expect(await bus.hf.schedule(Settlement, items)).toMatchObject({ created: 12_000 })
  const more = Array.from({ length: 50 }, (_, n) => ({ key: `ONE-${n}`, context: { amount: n }, startAt: at }))
  const answers = await Promise.all(more.map((item) => bus.hf.schedule(Settlement, item)))
  expect(answers.every(({ created }) => created)).toBe(true)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 12_050 })
  expect(await bus.hf.item(Settlement, 'PAY-11999').get()).toMatchObject({ context: { amount: 11_999 } })
})

test('D-01 in the caller’s transaction: scheduled if it commits, and not if it does not', async () => {
  const Settlement = settlement()
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  const item = { key: 'PAY-1', context: { amount: 5 }, startAt: at }
  await client.query('begin')
  await bus.hf.schedule(Settlement, item, { transaction: client })
  await client.query('rollback')
  await expect(bus.hf.item(Settlement, 'PAY-1').get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await client.query('begin')
  await bus.hf.schedule(Settlement, [item, { ...item, key: 'PAY-2' }], { transaction: client })
  await client.query('commit')
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 2 })
  await client.end()
})

test('D-01 from any language: a SQL function, whose context is checked by the code that executes it', async () => {
  const Settle = defineProcess('schedule-sql', 'Settle', {
    state: z.object({ amount: z.number() }),
    execute: async (_ctx, state) => state.amount,
  })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Settle),
    settings: { jitterWindow: 0, dispatchInterval: 0 },
  })
  bus.hf.register(Settlement)
  await bus.runProcesses(Settle, { domains: [Settle.domain, Settlement.domain] })
  const past = '2020-01-01T00:00:00Z'
  const schedule = (id: string, context: object) =>
    bus.sql<{ is_new: boolean }>(`select holdfast.schedule($1, 'Items', $2, $4, $3) as is_new`, [
      Settlement.domain,
      id,
      past,
      context,
    ])
  expect(await schedule('good', { amount: 5 })).toEqual([{ is_new: true }])
  expect(await schedule('good', { amount: 5 })).toEqual([{ is_new: false }])
  await expect(schedule('good', { amount: 6 })).rejects.toThrow('item good of')
  await schedule('bad', { amount: 'five' })
  await hasStatus(Settlement.name, 'good', 'COMPLETED')
  expect(await bus.hf.process(Settle, `exec:${Settlement.name}:good:0`).result()).toBe(5)
  await hasStatus(Settlement.name, 'bad', 'DISPATCHED')
  const [bad] = (await bus.hf.processes.list({ domain: 'schedule-sql', key: `exec:${Settlement.name}:bad:0` })).items
  await bus.rests(bad?.id ?? '', 'WAITING_FOR_TSQ')
  expect(await bus.hf.item(Settlement, 'bad').get()).toMatchObject({ status: 'DISPATCHED' })
  await expect(bus.sql(`select holdfast.schedule('nobody', 'Items', 'x', '{}', now())`)).rejects.toThrow(
    'HF_NOT_FOUND: there is no dispatch nobody/Items',
  )
  await expect(
    bus.sql(`select holdfast.schedule($1, 'Items', 'x', '{}', 'infinity')`, [Settlement.domain]),
  ).rejects.toThrow('an item needs a context and a time to start at')
})

test('D-01 what the codec keeps beside the JSON comes back at the execution, also under another version', async () => {
  const seen: unknown[] = []
  const Settle = defineProcess('schedule-codec', 'Settle', {
    state: z.object({ on: z.date() }),
    execute: async (_ctx, state) => void seen.push(state.on instanceof Date),
  })
  const name = itemType()
  const config = { jitterWindow: 0, dispatchInterval: 0 }
  const First = defineDispatch(name, 'Items', { target: processTarget(Settle), settings: config })
  const Second = defineDispatch(name, 'Items', { target: processTarget(Settle), settings: config, version: 2 })
  const past = new Date('2020-01-01T00:00:00Z')
  await bus.hf.schedule(First, { key: 'one', context: { on: past }, startAt: past })
  await bus.hf.schedule(Second, { key: 'two', context: { on: past }, startAt: past })
  bus.hf.register(Second)
  await bus.runProcesses(Settle, { domains: [Settle.domain, name] })
  await hasStatus(First.name, 'one', 'COMPLETED')
  await hasStatus(First.name, 'two', 'COMPLETED')
  expect(seen).toEqual([true, true])
})

test('K-10 a codec of its own: contexts are stored encoded, and are decoded whichever way they were scheduled', async () => {
  const plain = createCodec()
  const codec: Codec = {
    encode(value, options) {
      const { json, notes } = plain.encode(value, options)
      return { json: JSON.stringify({ hidden: json }), notes }
    },
    decode: ({ json, notes }) => plain.decode({ json: JSON.parse((json as { hidden: string }).hidden), notes }),
  }
  const secret = await openTestBus({ connectionString: bus.connectionString, codec })
  const seen: unknown[] = []
  const Settle = defineProcess('schedule-secret', 'Settle', {
    state: z.object({ note: z.string() }),
    execute: async (_ctx, state) => void seen.push(state.note),
  })
  const name = itemType()
  const config = { jitterWindow: 0, dispatchInterval: 0 }
  const First = defineDispatch(name, 'Items', { target: processTarget(Settle), settings: config })
  const Second = defineDispatch(name, 'Items', { target: processTarget(Settle), settings: config, version: 2 })
  const past = new Date('2020-01-01T00:00:00Z')
  await secret.hf.schedule(First, { key: 'old', context: { note: 'old' }, startAt: past })
  await secret.hf.schedule(Second, { key: 'new', context: { note: 'new' }, startAt: past })
  await bus.sql(`select holdfast.schedule($1, 'Items', 'sql', '{"note": "sql"}', $2)`, [name, past])
  const stored = await bus.sql(
    `select context from holdfast.dispatch_context where item_type = $1 and item_id = 'new'`,
    [First.name],
  )
  expect(stored).toEqual([{ context: { hidden: '{"note":"new"}' } }])
  secret.hf.register(Second)
  await secret.runProcesses(Settle, { domains: [Settle.domain, name] })
  for (const item of ['old', 'new', 'sql']) await hasStatus(First.name, item, 'COMPLETED')
  expect(new Set(seen)).toEqual(new Set(['new', 'old', 'sql']))
  await secret.close()
})

const anySettlement = () => defineDispatch(itemType(), 'Items', { target: processTarget(settle(z.any())) })

test.each([
  [{ key: 'x', context: { amount: 1 }, startAt: 'tomorrow' }, 'HF_INVALID_OPTION', 'option `startAt` must be a Date'],
  [{ key: 'x', context: { amount: 1 }, startAt: new Date(Number.NaN) }, 'HF_INVALID_OPTION', '`startAt`'],
  [{ key: 'x', context: { amount: 1 }, startAt: new Date(8.64e15) }, 'HF_INVALID_OPTION', 'the years 1 to 9999'],
  [{ key: 'x', context: { amount: 1 } }, 'HF_INVALID_OPTION', 'option `startAt` is required'],
  [{ key: '', context: { amount: 1 }, startAt: at }, 'HF_INVALID_OPTION', 'option `key` must not be empty'],
  [{ key: 'x'.repeat(201), context: { amount: 1 }, startAt: at }, 'HF_INVALID_OPTION', 'at most 200 characters'],
  [{ key: 'a\u0000', context: { amount: 1 }, startAt: at }, 'HF_INVALID_OPTION', 'PostgreSQL cannot hold'],
  [{ key: 'x', context: { amount: 'five' }, startAt: at }, 'HF_INVALID_DATA', '$.amount is refused by the schema'],
  [{ key: 'x', context: { amount: 1 }, startAt: at, startat: at }, 'HF_UNKNOWN_OPTION', 'did you mean `startAt`?'],
])('D-01 refuses %j', async (item, code, message) => {
  const Settlement = settlement()
  await expect(bus.hf.schedule(Settlement, item as never)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message),
  })
  await expect(bus.hf.dispatch.plan(Settlement)).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
})

test('D-01 a context that is too large or cannot be encoded is refused where it enters, with the item’s place', async () => {
  const small = await openTestBus({ connectionString: bus.connectionString, codec: createCodec({ maxBytes: 100 }) })
  const Settlement = anySettlement()
  const item = (context: unknown) => ({ key: 'x', context, startAt: at })
  await expect(small.hf.schedule(Settlement, item({ note: 'x'.repeat(200) }))).rejects.toMatchObject({
    code: 'HF_TOO_LARGE',
  })
  await expect(bus.hf.schedule(Settlement, item({ note: () => 1 }))).rejects.toMatchObject({
    code: 'HF_NOT_ENCODABLE',
    message: expect.stringContaining('context.note'),
  })
  await expect(bus.hf.schedule(Settlement, [item({}), { ...item({}), key: 7 } as never])).rejects.toMatchObject({
    message: expect.stringContaining('items[1]'),
  })
  await small.close()
})

test('D-01 values that are not definitions, and invalid names, are refused', async () => {
  await expect(bus.hf.schedule({} as never, [])).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  const target = processTarget(settle())
  expect(() => defineDispatch('a/b', 'Items', { target })).toThrow('must not contain')
  expect(() => defineDispatch('x', 'Items', { target: {} as never })).toThrow('must be processTarget(…)')
  expect(() => defineDispatch('x', 'Items', { target, context: z.any() } as never)).toThrow(
    'is the state of the process',
  )
  expect(() => processTarget({} as never)).toThrow('must be made with defineProcess')
  const Settlement = settlement()
  bus.hf.register(Settlement)
  expect(() => bus.hf.register(defineDispatch(Settlement.domain, 'Items', { target }))).toThrow(
    expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION' }),
  )
})

test('D-01 a second item type needs a definition and a configuration row, which comes with it', async () => {
  const [One, Two] = [settlement(), settlement()]
  await bus.hf.schedule(One, { key: 'x', context: { amount: 1 }, startAt: at })
  await bus.hf.schedule(Two, { key: 'x', context: { amount: 2 }, startAt: at })
  const known = (await bus.hf.dispatch.settings()).map(({ domain, type }) => `${domain}/${type}`)
  expect(known).toEqual(expect.arrayContaining([One.name, Two.name]))
  expect(await bus.hf.item(Two, 'x').get()).toMatchObject({ context: { amount: 2 } })
})
