import { waitFor } from '@holdfast/testing/internal'
import type { Metrics } from 'holdfast/internal'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinyWorker } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

/** A sink that keeps everything, by name. */
function collect() {
  const seen: { name: string; labels: object; value: number }[] = []
  const keep = (name: string, labels: object, value = 1) => void seen.push({ name, labels, value })
  const metrics: Metrics = { count: keep, observe: keep, gauge: keep }
  const sum = (name: string) =>
    seen.filter((entry) => entry.name === name).reduce((total, { value }) => total + value, 0)
  return { metrics, seen, sum }
}

test('K-16 claims, leases, flushes and what is in flight are measured, by model and type, never by id', async () => {
  const { db } = await tinyDatabase()
  const ids = await enqueueTiny(db, 'a', 200)
  const { metrics, seen, sum } = collect()
  const worker = tinyWorker(db, { worker: 'w', leaseMs: 6_000, pollMs: 20, concurrency: 50, workMs: 800, metrics })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 200)
  await worker.close()
  expect(sum('claims_won')).toBe(200)
  expect(sum('claims_tried')).toBeGreaterThan(0)
  // A write whose row a heartbeat holds at that moment is sent a second time.
  expect(sum('flush_size')).toBeGreaterThanOrEqual(200)
  expect(seen.some(({ name, value }) => name === 'in_flight' && value > 0)).toBe(true)
  const names = new Set(seen.map(({ name }) => name))
  for (const name of ['claim_milliseconds', 'flush_milliseconds', 'oldest_due_seconds']) expect(names).toContain(name)
  const labels = JSON.stringify(seen.map((entry) => entry.labels))
  expect(ids.filter((id) => labels.includes(id))).toEqual([])
  expect(new Set(seen.flatMap((entry) => Object.keys(entry.labels)))).toEqual(new Set(['model']))
})

test('K-16 the age of the oldest due item shows a backlog that no worker claims', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 10, -60_000)
  const { metrics, seen } = collect()
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const worker = tinyWorker(db, { worker: 'w', leaseMs: 300, concurrency: 2, work: () => gate, metrics })
  worker.loop.start()
  await waitFor('the backlog shows', () => seen.some(({ name, value }) => name === 'oldest_due_seconds' && value >= 60))
  go()
  await worker.close()
})

test('K-16 lost leases are counted', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 3)
  const { metrics, sum } = collect()
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const worker = tinyWorker(db, { worker: 'w', leaseMs: 300, work: () => gate, metrics })
  worker.loop.start()
  await waitFor('all run', async () => (await tinyBooks(db)).effects === 3)
  await db.run({ name: 'test.take', text: 'update holdfast.tiny set lease_epoch = lease_epoch + 1' })
  await waitFor('they are lost', () => sum('leases_lost') === 3)
  go()
  await worker.close()
})
