import { testDatabase } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { databaseNow, databaseUptimeMs, moveClock } from './clock.js'

let db: Database
let other: Database
beforeAll(async () => {
  const { connectionString } = await testDatabase()
  db = await openDatabase({ connectionString })
  other = await openDatabase({ connectionString })
})
afterAll(async () => {
  await db.close()
  await other.close()
})

test('K-01 the clock of an installation moves for every connection', async () => {
  const before = await databaseNow(other)
  await moveClock(db, 3_600_000)
  const after = await databaseNow(other)
  expect(after.getTime() - before.getTime()).toBeGreaterThanOrEqual(3_600_000)
  await moveClock(db, -3_600_000)
  expect((await databaseNow(other)).getTime()).toBeLessThan(after.getTime())
})

test('K-01 the clock stands still within a statement and goes on within a transaction', async () => {
  const [row] = await db.run<{ same: boolean }>({
    name: 'test.same',
    text: 'select count(distinct holdfast.now()) = 1 as same from generate_series(1, 1000)',
  })
  expect(row?.same).toBe(true)
  const [first, second] = await db.transaction(async (tx) => [
    await databaseNow(tx),
    await tx.run({ name: 'test.wait', text: 'select pg_sleep(0.002)' }).then(() => databaseNow(tx)),
  ])
  expect(second.getTime()).toBeGreaterThan(first.getTime())
})

test('K-01 the clock is STABLE, so that an index can serve due_at <= now', async () => {
  const [row] = await db.run({
    name: 'test.volatility',
    text: `select provolatile from pg_proc where oid = 'holdfast.now()'::regprocedure`,
  })
  expect(row).toEqual({ provolatile: 's' })
})

test('K-03 the uptime is that of the server, whatever the clock was moved to', async () => {
  await moveClock(db, 86_400_000)
  const uptime = await databaseUptimeMs(db)
  expect(uptime).toBeGreaterThan(0)
  await moveClock(db, -86_400_000)
})
