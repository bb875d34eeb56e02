import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLogger } from '../logger.js'
import { createPresence } from './presence.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const beat = () => bus.sql('select holdfast.note_beat()')
async function counts(): Promise<boolean | undefined> {
  const [row] = await bus.sql<{ counts: boolean }>('select holdfast.absence_counts() as counts')
  return row?.counts
}

test.each([
  ['an outage', 3_600_000],
  ['a clock that was set back', -60_000],
])('K-03 after %s absence counts only when beats have come for two beats without a gap', async (_, jump) => {
  await bus.steady()
  await beat()
  expect(await counts()).toBe(true)
  await bus.moveClock(jump)
  expect(await counts()).toBe(false)
  await beat()
  expect(await counts()).toBe(false)
  await bus.moveClock(60_000)
  await beat()
  expect(await counts()).toBe(false)
  await bus.moveClock(60_000)
  await beat()
  expect(await counts()).toBe(true)
})

test('K-03 a worker notes what it has before it beats, again when something is registered, and again after a failure', async () => {
  const noted: number[] = []
  let failing = false
  const presence = createPresence(bus.db, {
    note: async () => {
      noted.push(noted.length)
      if (failing) {
        failing = false
        throw new Error('the database is away')
      }
    },
    everyMs: 60_000,
    logger: silentLogger,
  })
  await bus.moveClock(1_000)
  await presence.begin()
  expect(noted).toHaveLength(1)
  failing = true
  presence.changed()
  await waitFor('it has failed and is noted again', () => noted.length === 3)
  presence.stop()
})
