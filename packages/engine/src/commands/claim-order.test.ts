import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

test('K-01 Q-02 what has been due for longest is received first', async () => {
  const Do = defineCommand('ordered', 'Do')
  // Not in the order in which they are sent.
  for (const n of [3, 0, 4, 1, 2]) await bus.hf.send(Do, n, { delay: 60_000 + n * 1_000 })
  await bus.moveClock(120_000)
  const got: unknown[] = []
  await bus.work(Do, (n) => void got.push(n), { concurrency: 1 })
  await waitFor('all are handled', () => got.length === 5)
  expect(got).toEqual([0, 1, 2, 3, 4])
})
