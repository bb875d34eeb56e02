import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { holdfast } from '../holdfast.js'
import { silentLogger } from '../kernel/logger.js'
import { noMetrics } from '../kernel/metrics/metrics.js'
import { defineCommand } from './define.js'
import { commandSource } from './source.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const request = { worker: 'w', leaseMs: 60_000, spareLeased: false, ceilingMs: 1_000 }
const sourceOf = (domain: string, types: readonly string[] = ['Do']) =>
  commandSource(bus.db, {
    domain,
    queue: `${domain}__commands`,
    types: () => types,
    metrics: noMetrics,
    logger: silentLogger,
  })

async function sendSome(domain: string, type: string, count: number): Promise<void> {
  const commands = Array.from({ length: count }, () => ({ data: null }))
  await bus.hf.sendMany(defineCommand(domain, type), commands)
}

test('K-17 types fill a claim one after the other; each keeps a mark of how far it was scanned', async () => {
  await sendSome('lanes', 'A', 3)
  await sendSome('lanes', 'B', 3)
  await sendSome('lanes', 'C', 3)
  const source = sourceOf('lanes')
  const lanes = ['A', 'B', 'C'].map((type) => ({ type, from: null }))
  const first = await source.claim({ ...request, lanes, limit: 4 })
  expect(first.items.map(({ type }) => type)).toEqual(['A', 'A', 'A', 'B'])
  expect(first.marks.map(({ type }) => type)).toEqual(['A', 'B'])
  expect(first.nextDueMs).toBeNull()
  const rest = await source.claim({
    ...request,
    lanes: lanes.map(({ type }) => ({ type, from: first.marks.find((mark) => mark.type === type)?.mark ?? null })),
    limit: 10,
  })
  expect(rest.items.map(({ type }) => type)).toEqual(['B', 'B', 'C', 'C', 'C'])
  expect(rest.marks.map(({ type }) => type)).toEqual(['A', 'B', 'C'])
})

test('C-07 a claim that returns fewer than asked for says when the next command falls due', async () => {
  const Do = defineCommand('soon', 'Do')
  await bus.hf.send(Do, null, { delay: '30s' })
  const lanes = [{ type: 'Do', from: null }]
  const far = await sourceOf('soon').claim({ ...request, lanes, limit: 1 })
  expect(far).toMatchObject({ items: [], nextDueMs: null })
  const near = await sourceOf('soon').claim({ ...request, lanes, limit: 1, ceilingMs: 60_000 })
  expect(near.nextDueMs).toBeGreaterThan(20_000)
  expect(near.nextDueMs).toBeLessThanOrEqual(30_000)
})

test('C-05 a release waits for no lock: a message locked by another transaction is due when its lease ends', async () => {
  await sendSome('give-back', 'Do', 2)
  const source = sourceOf('give-back')
  const lanes = [{ type: 'Do', from: null }]
  const { items } = await source.claim({ ...request, lanes, limit: 2 })
  const [held, free] = items
  await bus.db.transaction(async (holder) => {
    await holder.query('select from pgmq."q_give-back__commands" where msg_id = $1 for update', [held?.id])
    await source.release(items)
  })
  const again = await source.claim({ ...request, lanes, limit: 2 })
  expect(again.items).toMatchObject([{ id: free?.id, epoch: 1 }])
})

test('K-09 the functions of a queue are renewed with their file, also for existing queues', async () => {
  await sendSome('renewed', 'Do', 1)
  await bus.sql('drop function holdfast.take_renewed__commands')
  await bus.sql("update holdfast.function_file set revision = 0 where name = 'command-queues'")
  const next = await holdfast({ connectionString: bus.connectionString })
  await next.close()
  const { items } = await sourceOf('renewed').claim({ ...request, lanes: [{ type: 'Do', from: null }], limit: 5 })
  expect(items).toHaveLength(1)
})
