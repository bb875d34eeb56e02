import { openTestBus, startWorkerProcess, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Import, STEPS } from './definitions.js'

const script = new URL('../../../dist/processes/large/worker-process.js', import.meta.url)
const PROCESSES = 8
/** Of each result: together more than a claim may load. */
const LENGTH = 1_000_000

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.register(Import)
})
afterAll(() => bus.close())

/** Starts processes, lets them come to their wait, and stops the worker. */
async function waiting(): Promise<string[]> {
  const worker = await bus.hf.run({ domains: ['large'], poll: '20ms', concurrency: 20 })
  const starts = Array.from({ length: PROCESSES }, (_, n) => ({ input: { n } }))
  const ids = (await bus.hf.startMany(Import, starts)).map(({ id }) => id)
  await waitFor('all wait', async () => {
    const found = (await bus.hf.processes.list({ domain: 'large', type: 'Import', status: 'WAITING_FOR_ASYNC' })).items
    return ids.every((id) => found.some((process) => process.id === id))
  })
  await worker.stop()
  return ids
}

/** What one claim of all of them loads, in bytes. */
async function claimed(ids: readonly string[]) {
  const [row] = await bus.sql<{ items: { history: unknown[] }[]; bytes: number }>(
    `with claim as (select holdfast.lease_processes($1::uuid[], 'a test', 1) as items)
     select items, octet_length(items::text) as bytes from claim`,
    [ids],
  )
  return { bytes: row?.bytes ?? 0, records: row?.items.map(({ history }) => history.length) ?? [] }
}

test('K-23 processes with hundreds of megabytes of history are claimed together and complete on a small heap', async () => {
  const ids = await waiting()
  // A claim would load and parse 320 MB; a page of each is what it loads.
  await bus.sql(
    `update holdfast.process_history set result = to_jsonb(repeat('x', ${LENGTH})) where process_id = any ($1::uuid[]) and kind = 'STEP'`,
    [ids],
  )
  for (const id of ids) await bus.hf.process(Import, id).respond('go', {})
  const worker = startWorkerProcess(script, { connectionString: bus.connectionString }, ['--max-old-space-size=200'])
  onTestFinished(() => worker.kill())
  let over = false
  void worker.ended.then(() => {
    over = true
  })
  for (const [n, id] of ids.entries()) {
    await waitFor(`${n} has completed`, async () => {
      if (over) throw new Error('the worker has ended')
      return (await bus.hf.process(Import, id).get()).status === 'COMPLETED'
    })
    expect(await bus.hf.process(Import, id).result()).toBe(n)
  }
})

test('K-23 a claim loads at most 32 MB, at least a record of each, and whole histories where they are small', async () => {
  const ids = await waiting()
  expect((await claimed(ids)).records).toEqual(Array(PROCESSES).fill(STEPS + 1))
  await bus.sql(
    `update holdfast.process_history set result = to_jsonb(repeat('x', ${LENGTH})) where process_id = any ($1::uuid[]) and kind = 'STEP'`,
    [ids],
  )
  const { bytes, records } = await claimed(ids)
  expect(bytes).toBeLessThan(32 * 2 ** 20)
  for (const count of records) expect(count).toBeGreaterThan(0)
})

test('K-23 large responses are read in pages, and all are applied in their order', async () => {
  const ids = await waiting()
  const [id = ''] = ids
  for (let n = 0; n < 30; n++) await bus.hf.process(Import, id).respond('chunk', `${n} ${'x'.repeat(900_000)}`)
  expect((await claimed([id])).bytes).toBeLessThan(32 * 2 ** 20)
  await bus.hf.process(Import, id).respond('go', {})
  const worker = await bus.hf.run({ domains: ['large'], poll: '20ms' })
  onTestFinished(async () => void (await worker.stop()))
  expect(await bus.hf.process(Import, id).result()).toBe(0)
})
