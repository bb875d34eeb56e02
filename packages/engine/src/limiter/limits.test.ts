import { openTestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { classifyFailure } from '../kernel/failure/classify.js'

const bus = await openTestBus()
const { limits } = bus.hf
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'as agreed with the bank' }

test('R-01 acquire resolves at the time of its slot, tryAcquire resolves at once', async () => {
  await limits.set('first', { ticketsPerSecond: 50, burst: 1 }, by)
  const began = performance.now()
  await Promise.all([limits.acquire('first'), limits.acquire('first', { maxWait: '5s' }), limits.acquire('first')])
  // The third slot is 40 ms after the first; never sooner, whatever the machine does.
  expect(performance.now() - began).toBeGreaterThanOrEqual(40)
  await limits.set('second', { ticketsPerSecond: 0.001, burst: 1 }, by)
  expect([await limits.tryAcquire('second'), await limits.tryAcquire('second')]).toEqual([true, false])
})

test('R-02 K-08 a slot beyond the wait is refused as a transient failure that says when to retry', async () => {
  await limits.set('slow', { ticketsPerSecond: 0.1, burst: 1 }, by)
  await limits.acquire('slow', { maxWait: 0 })
  const refused = await limits.acquire('slow', { maxWait: '1s' }).catch((error: unknown) => error)
  expect(refused).toMatchObject({
    code: 'HF_RATE_LIMITED',
    status: 429,
    details: { key: 'slow', maxWait: '1 s', retryAfter: expect.any(Number) },
  })
  expect(classifyFailure(refused, { unknown: 'permanent' })).toMatchObject({
    kind: 'TRANSIENT',
    code: 'HF_RATE_LIMITED',
  })
  await bus.moveClock(10_000)
  await limits.acquire('slow', { maxWait: 0 })
})

test('R-02 an abort ends the wait; its slot is wasted, and no other', async () => {
  await limits.set('abort', { ticketsPerSecond: 0.01, burst: 1 }, by)
  await limits.acquire('abort')
  const controller = new AbortController()
  const waiting = limits.acquire('abort', { maxWait: '1h', signal: controller.signal })
  await waitFor('its slot is reserved', async () => (await limits.get('abort')).reservedAhead === 1)
  controller.abort(new Error('changed my mind'))
  await expect(waiting).rejects.toThrow('changed my mind')
  expect(await limits.get('abort')).toMatchObject({ reservedAhead: 1 })
  await expect(limits.acquire('abort', { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' })
  expect(await limits.get('abort')).toMatchObject({ reservedAhead: 1 })
})

test('R-03 K-12 a limit is set, changed and removed, each with its audit in the same transaction', async () => {
  expect(await limits.set('risk_api', { ticketsPerSecond: 2.5, description: 'the risk service' }, by)).toBe(true)
  expect(await limits.get('risk_api')).toEqual({
    key: 'risk_api',
    ticketsPerSecond: 2.5,
    burst: 2,
    available: 2,
    reservedAhead: 0,
    nextSlotMs: 0,
    description: 'the risk service',
  })
  expect(await limits.set('risk_api', { ticketsPerSecond: 2.5, description: 'the risk service' }, by)).toBe(false)
  expect(await limits.set('risk_api', { ticketsPerSecond: 4, burst: 9 }, { actor: 'bob', reason: 'more' })).toBe(true)
  expect(await limits.get('risk_api')).toMatchObject({ ticketsPerSecond: 4, burst: 9, description: null })
  await limits.tryAcquire('risk_api')
  expect(await limits.remove('risk_api', by)).toBe(true)
  expect(await limits.remove('risk_api', by)).toBe(false)
  expect(await bus.sql("select from holdfast.rate_limit_bucket where resource_key = 'risk_api'")).toEqual([])
  expect(await bus.hf.auditTrail({ name: 'rate_limit:risk_api' })).toMatchObject([
    { event: 'RATE_LIMIT_SET', actor: 'ann', before: null, after: { ticketsPerSecond: 2.5, burst: null } },
    { event: 'RATE_LIMIT_SET', actor: 'bob', before: { ticketsPerSecond: 2.5 }, after: { burst: 9 } },
    { event: 'RATE_LIMIT_REMOVED', before: { ticketsPerSecond: 4, burst: 9 }, reason: by.reason },
  ])
})

test('R-03 two changes of the same limit at once are both in the audit trail', async () => {
  await Promise.all([1, 2, 3, 4].map((ticketsPerSecond) => limits.set('twice', { ticketsPerSecond }, by)))
  const trail = await bus.hf.auditTrail({ name: 'rate_limit:twice' })
  expect(trail).toHaveLength(4)
  expect(trail.filter(({ before }) => before === null)).toHaveLength(1)
})

test('R-03 a service that starts again does not change what an operator has set', async () => {
  const start = () => limits.define('started', { ticketsPerSecond: 10, burst: 2, description: 'the bank' })
  expect(await start()).toBe(true)
  await limits.set('started', { ticketsPerSecond: 3 }, by)
  expect(await start()).toBe(false)
  expect(await limits.get('started')).toMatchObject({ ticketsPerSecond: 3, burst: 3, description: null })
  expect(await bus.hf.auditTrail({ name: 'rate_limit:started' })).toMatchObject([
    { event: 'RATE_LIMIT_DEFINED', model: 'limits', actor: null, after: { ticketsPerSecond: 10, burst: 2 } },
    { event: 'RATE_LIMIT_SET', before: { ticketsPerSecond: 10, description: 'the bank' } },
  ])
})

test('R-03 of services that start at once, one creates the limit', async () => {
  const made = await Promise.all([1, 2, 3, 4].map((ticketsPerSecond) => limits.define('once', { ticketsPerSecond })))
  expect(made.filter(Boolean)).toHaveLength(1)
  expect((await limits.get('once')).ticketsPerSecond).toBe(made.indexOf(true) + 1)
  expect(await bus.hf.auditTrail({ name: 'rate_limit:once' })).toHaveLength(1)
})

test('R-03 a service that starts while an operator sets the limit waits for it, and does not change it', async () => {
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('begin')
  await client.query("insert into holdfast.rate_limit values ('meanwhile', 5)")
  const defined = limits.define('meanwhile', { ticketsPerSecond: 10 })
  await waitFor('it waits for the operator', async () => {
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%made as%'
      and datname = current_database()`
    return (await bus.sql(waiting)).length > 0
  })
  await client.query('commit')
  expect(await defined).toBe(false)
  expect(await limits.get('meanwhile')).toMatchObject({ ticketsPerSecond: 5 })
})

test('R-03 the list shows what is reserved ahead', async () => {
  await limits.set('list', { ticketsPerSecond: 0.01, burst: 1 }, by)
  await limits.acquire('list')
  const controller = new AbortController()
  const waiting = [1, 2].map(() => limits.acquire('list', { maxWait: '1h', signal: controller.signal }))
  await waitFor('both are reserved', async () => (await limits.get('list')).reservedAhead === 2)
  const shown = (await limits.list()).find(({ key }) => key === 'list')
  expect(shown).toMatchObject({ available: 0, reservedAhead: 2 })
  expect(shown?.nextSlotMs).toBeGreaterThan(200_000)
  controller.abort()
  await Promise.allSettled(waiting)
})

test('R-03 an unknown key is a clear error', async () => {
  const unknown = { code: 'HF_UNKNOWN_RATE_LIMIT', status: 404, message: 'there is no rate limit `risk_apj`' }
  await expect(limits.acquire('risk_apj')).rejects.toMatchObject(unknown)
  await expect(limits.tryAcquire('risk_apj')).rejects.toMatchObject(unknown)
  await expect(limits.get('risk_apj')).rejects.toMatchObject(unknown)
})

test.each([
  ['a rate of zero', { ticketsPerSecond: 0 }, 'ticketsPerSecond'],
  ['a negative rate', { ticketsPerSecond: -1 }, 'ticketsPerSecond'],
  ['NaN', { ticketsPerSecond: Number.NaN }, 'ticketsPerSecond'],
  ['infinity', { ticketsPerSecond: Number.POSITIVE_INFINITY }, 'ticketsPerSecond'],
  ['a burst below one', { ticketsPerSecond: 1, burst: 0 }, 'burst'],
  ['half a burst', { ticketsPerSecond: 1, burst: 1.5 }, 'burst'],
  ['a bucket that never fills', { ticketsPerSecond: 0.001, burst: 1e9 }, 'burst'],
  ['an unstorable description', { ticketsPerSecond: 1, description: 'a\u0000b' }, 'description'],
])('R-03 K-13 %s is refused and nothing is written', async (_, limit, option) => {
  const refused = { code: 'HF_INVALID_OPTION', message: expect.stringContaining(`\`${option}\``) }
  await expect(limits.set('bad', limit, by)).rejects.toMatchObject(refused)
  await expect(limits.define('bad', limit)).rejects.toMatchObject(refused)
  await expect(limits.get('bad')).rejects.toMatchObject({ code: 'HF_UNKNOWN_RATE_LIMIT' })
})

test.each([[''], ['x'.repeat(201)], ['a\u0000b'], [7]])('R-03 K-13 %j is refused as a key', async (key) => {
  const refused = { code: 'HF_INVALID_OPTION', message: expect.stringContaining('`key`') }
  // @ts-expect-error the compiler refuses a number, too
  const asText: string = key
  await expect(limits.set(asText, { ticketsPerSecond: 1 }, by)).rejects.toMatchObject(refused)
  await expect(limits.define(asText, { ticketsPerSecond: 1 })).rejects.toMatchObject(refused)
  await expect(limits.acquire(asText)).rejects.toMatchObject(refused)
  await expect(limits.tryAcquire(asText)).rejects.toMatchObject(refused)
})

test('R-03 K-13 misspelt options, a missing actor and a wait that is no duration are refused', async () => {
  // @ts-expect-error the compiler refuses it too
  await expect(limits.set('bad', { ticketPerSecond: 1 }, by)).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
  await expect(limits.set('bad', { ticketsPerSecond: 1 }, { actor: 'ann', reason: '' })).rejects.toMatchObject({
    code: 'HF_INVALID_ACTOR',
  })
  // @ts-expect-error the compiler refuses it too
  await expect(limits.acquire('bad', { maxWait: '5x' })).rejects.toMatchObject({ code: 'HF_INVALID_DURATION' })
  await expect(limits.acquire('bad', { maxWait: '2d' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  // @ts-expect-error the compiler refuses it too
  await expect(limits.acquire('bad', { signal: 'now' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test.each([
  ["('k', 0)"],
  ["('k', -1)"],
  ["('k', 'NaN')"],
  ["('k', 'Infinity')"],
  ["('k', 1, 0)"],
  ["('k', 0.001, 1000000000)"],
  ["('', 1)"],
])('R-03 the table refuses %s by itself', async (values) => {
  await expect(bus.sql(`insert into holdfast.rate_limit values ${values}`)).rejects.toMatchObject({ code: '23514' })
})

test('R-03 the burst in force follows the rate where none is given', async () => {
  await bus.sql("insert into holdfast.rate_limit values ('plain', 7), ('half', 0.5), ('most', 1e9)")
  expect(await limits.get('plain')).toMatchObject({ burst: 7, available: 7 })
  expect(await limits.get('half')).toMatchObject({ burst: 1 })
  expect(await limits.get('most')).toMatchObject({ burst: 1e9 })
  await bus.sql("update holdfast.rate_limit set tickets_per_second = 9 where resource_key = 'plain'")
  expect(await limits.get('plain')).toMatchObject({ burst: 9 })
})

test('R-02 closing ends all waits for slots', async () => {
  const other = await openTestBus({ connectionString: bus.connectionString })
  await limits.set('closing', { ticketsPerSecond: 0.001, burst: 1 }, by)
  await other.hf.limits.acquire('closing')
  const waiting = other.hf.limits.acquire('closing', { maxWait: '1h' })
  await waitFor('it is reserved', async () => (await limits.get('closing')).reservedAhead === 1)
  const closed = other.close()
  await expect(waiting).rejects.toMatchObject({ code: 'HF_STOPPED' })
  await closed
})
