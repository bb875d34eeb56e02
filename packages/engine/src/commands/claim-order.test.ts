import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

test('K-01 Q-02 the message that has been due longest is received first', async () => {
  const Do = defineCommand('ordered', 'Do')
  // Not in the order in which they are sent.
  for (const n of [3, 0, 4, 1, 2]) await bus.hf.send(Do, n, { delay: 60_000 + n * 1_000 })
  await bus.moveClock(120_000)
  const received: unknown[] = []
  // Not by a worker: its chores may hold a row for a moment, and a claim passes over what somebody holds.
  for (let n = 0; n < 5; n += 1) {
    const [row] = await bus.sql<{ items: { data: unknown }[] }>(
      `select items from holdfast.receive_commands('ordered__commands', 'ordered', '{Do}', '{null}', 'w', 1, 60000, false, 1000)`,
    )
    received.push(row?.items[0]?.data)
  }
  expect(received).toEqual([0, 1, 2, 3, 4])
})
