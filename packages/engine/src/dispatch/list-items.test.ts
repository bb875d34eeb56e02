import { numbered, openTestBus, runDispatchCycle, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from '../processes/index.js'
import { defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const name = numbered('list')
const past = new Date('2020-01-01T00:00:00Z')
const four = new Date('2031-01-31T16:00:00Z')

function definition(domain: string, type: string) {
  const Settle = defineProcess(domain, 'Settle', { state: z.object({}), execute: async () => undefined })
  const settings = { dispatchInterval: 0, jitterWindow: 0 } as const
  return defineDispatch(domain, type, { target: processTarget(Settle), settings })
}
const items = (keys: readonly string[], startAt = four) => keys.map((key) => ({ key, context: {}, startAt }))
const keysOf = ({ items: found }: { readonly items: readonly { readonly key: string }[] }) =>
  found.map(({ key }) => key)

test('U-05 items are listed newest first, page by page, each once, over all types of a domain', async () => {
  const domain = name()
  const [First, Second] = [definition(domain, 'First'), definition(domain, 'Second')]
  // A list has one time of scheduling for all of its items.
  await bus.hf.schedule(First, items(['a', 'b', 'c']))
  await bus.hf.schedule(Second, items(['d', 'e']))
  await bus.hf.schedule(First, items(['f']))
  const seen: string[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await bus.hf.dispatch.list({ domain, limit: 2, ...(cursor === undefined ? {} : { cursor }) })
    expect(page.items.length).toBeLessThanOrEqual(2)
    seen.push(...keysOf(page))
    cursor = page.cursor
    if (cursor === undefined) break
  }
  expect(seen).toEqual(['f', 'e', 'd', 'c', 'b', 'a'])
  expect(keysOf(await bus.hf.dispatch.list({ domain, type: 'Second' }))).toEqual(['e', 'd'])
  const [item] = (await bus.hf.dispatch.list({ domain, key: 'd' })).items
  expect(item).toMatchObject({ domain, type: 'Second', key: 'd', status: 'READY', startAt: four })
})

test('U-05 filters by status, time to start, batch and time of scheduling fit lists and counts alike', async () => {
  const domain = name()
  const Settlement = definition(domain, 'Settlement')
  await bus.hf.schedule(Settlement, items(['a', 'b'], past))
  await runDispatchCycle(bus.db, Settlement)
  const [{ now } = { now: past }] = await bus.sql<{ now: Date }>('select clock_timestamp() as now')
  await bus.hf.schedule(Settlement, items(['c']))
  const { batch } = await bus.hf.item(Settlement, 'a').get()
  const fitting = async (filter: object) => {
    const found = keysOf(await bus.hf.dispatch.list({ domain, ...filter }))
    expect(await bus.hf.dispatch.count({ domain, ...filter })).toBe(found.length)
    return found
  }
  expect(await fitting({})).toEqual(['c', 'b', 'a'])
  expect(await fitting({ type: 'Settlement', status: 'DISPATCHED' })).toEqual(['b', 'a'])
  expect(await fitting({ batch: batch ?? '' })).toEqual(['b', 'a'])
  expect(await fitting({ startAt: { from: four } })).toEqual(['c'])
  expect(await fitting({ startAt: { until: four } })).toEqual(['b', 'a'])
  expect(await fitting({ since: now })).toEqual(['c'])
  expect(await fitting({ until: now })).toEqual(['b', 'a'])
  expect(await fitting({ type: 'Other' })).toEqual([])
  expect(await bus.hf.dispatch.count({ domain: 'nobody' })).toBe(0)
})

test.each([
  [{ cursor: 'nonsense' }],
  [{ cursor: Buffer.from('[1,"x"]').toString('base64url') }],
  [{ limit: 0 }],
  [{ status: 'DONE' }],
  [{ batch: 'x' }],
  [{ since: 'soon' }],
  [{ startAt: { form: four } }],
  [{ itemType: 'x' }],
])('U-05 an invalid filter is refused: %j', async (filter) => {
  await expect(bus.hf.dispatch.list(filter as never)).rejects.toMatchObject({
    code: expect.stringMatching(/^HF_(INVALID|UNKNOWN)_(OPTION|ID)$|^HF_INVALID_ID$/),
  })
})

test('U-05 a page of a long list is read from the index by time of scheduling', async () => {
  const domain = name()
  const Settlement = definition(domain, 'Settlement')
  await bus.hf.schedule(Settlement, items(Array.from({ length: 3_000 }, (_, n) => `PAY-${n}`)))
  await bus.sql('analyze holdfast.dispatch_item')
  const plan = await bus.sql(
    `explain select * from holdfast.dispatch_item where item_type = $1 and seq > 0 order by created_at desc, seq desc limit 100`,
    [Settlement.name],
  )
  expect(JSON.stringify(plan)).toContain('dispatch_item_newest')
})

test('U-05 definitions and settings say what the installation knows', async () => {
  const domain = name()
  const Settlement = definition(domain, 'Settlement')
  await bus.hf.schedule(Settlement, items(['a']))
  const known = (await bus.hf.dispatch.definitions()).filter((one) => one.domain === domain)
  expect(known).toMatchObject([{ domain, type: 'Settlement', target: 'process' }])
  const all = (await bus.hf.dispatch.settings()).filter((one) => one.domain === domain)
  expect(all).toEqual([await bus.hf.dispatch.settings(Settlement)])
  expect(all).toMatchObject([{ domain, type: 'Settlement', target: 'process', dispatchInterval: 0 }])
  await expect(bus.hf.dispatch.settings({ domain, type: 'Nobody' })).rejects.toMatchObject({
    code: 'HF_UNKNOWN_DEFINITION',
    details: { model: 'dispatch', domain, type: 'Nobody' },
  })
})
