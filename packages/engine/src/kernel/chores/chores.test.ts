import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { moveClock } from '../clock/clock.js'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { createWorkLoop } from '../work/loop.js'
import { type Chores, choreSource, kernelChores, runChore } from './chores.js'

const onlyPartitions: Chores = { audit_partitions: () => Promise.resolve() }

let db: Database
beforeAll(async () => {
  const { connectionString } = await testDatabase()
  db = await openDatabase({ connectionString })
})
afterAll(() => db.close())

const readChore = async (name: string) => {
  const [row] = await db.run<{ last_error: string | null; lease_epoch: number; ran: boolean; hours: number }>(
    {
      name: 'test.chore',
      text: `
        select last_error, lease_epoch, last_run_at is not null as ran,
               round(extract(epoch from due_at - holdfast.now()) / 3600)::int as hours
        from holdfast.chore where name = $1`,
    },
    [name],
  )
  return row
}

const loopOver = (chores: Chores) =>
  createWorkLoop({
    source: choreSource(db, chores),
    run: runChore(db, chores),
    worker: 'w',
    concurrency: 2,
    leaseMs: 30_000,
    pollMs: 20,
  })

test('K-12 the partitions of the audit trail are kept ahead by a chore, once a day', async () => {
  const loop = loopOver(kernelChores)
  loop.start()
  await waitFor('it ran', async () => (await readChore('audit_partitions'))?.ran)
  await loop.stop()
  expect(await readChore('audit_partitions')).toMatchObject({ last_error: null, hours: 24 })
})

test('K-01 a chore that fails says so and is due again next time', async () => {
  await moveClock(db, 25 * 3_600_000)
  const loop = loopOver({ audit_partitions: () => Promise.reject(new Error('disk full')) })
  loop.start()
  await waitFor('it failed', async () => (await readChore('audit_partitions'))?.last_error !== null)
  await loop.stop()
  expect(await readChore('audit_partitions')).toMatchObject({ last_error: 'disk full', hours: 24 })
})

test('K-03 a long chore keeps its lease, and one that is released is due at once', async () => {
  await moveClock(db, 25 * 3_600_000)
  const source = choreSource(db, onlyPartitions)
  const lanes = [{ type: 'audit_partitions', from: null }]
  const request = { worker: 'w', limit: 5, leaseMs: 1_000, lanes, spareLeased: false, ceilingMs: 60_000 }
  const { items } = await source.claim(request)
  expect(items).toMatchObject([{ id: 'audit_partitions' }])
  const [lease] = items
  if (!lease) throw new Error('nothing claimed')
  expect(await source.extend([lease], 60_000)).toEqual({ extended: ['audit_partitions'], lost: [] })
  expect(await source.extend([{ ...lease, epoch: lease.epoch - 1 }], 60_000)).toEqual({
    extended: [],
    lost: ['audit_partitions'],
  })
  expect(await source.oldestDueSeconds()).toBeNull()
  await source.release([lease])
  expect(await source.oldestDueSeconds()).toBeGreaterThanOrEqual(0)
  expect((await source.claim(request)).items).toHaveLength(1)
})

test('K-03 releasing a chore whose row is locked waits for no lock', async () => {
  await moveClock(db, 25 * 3_600_000)
  const source = choreSource(db, onlyPartitions)
  const lanes = [{ type: 'audit_partitions', from: null }]
  const request = { worker: 'w', limit: 5, leaseMs: 60_000, lanes, spareLeased: false, ceilingMs: 60_000 }
  const { items } = await source.claim(request)
  expect(items).toHaveLength(1)
  await db.transaction(async (holder) => {
    await holder.query("select from holdfast.chore where name = 'audit_partitions' for update")
    await source.release(items)
  })
  expect(await source.oldestDueSeconds()).toBeNull()
})
