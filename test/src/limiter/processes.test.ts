import { startWorkerProcess, testDatabase } from '@holdfast/testing/internal'
import { holdfast } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import type { LimiterOrder } from './worker-process.js'

interface Told {
  readonly slots: readonly number[]
  readonly refused: number
}

const isTold = (message: unknown): message is Told =>
  typeof message === 'object' && message !== null && 'slots' in message

const script = new URL('../../dist/limiter/worker-process.js', import.meta.url)

test('R-04 eight processes on one key: no slot is granted twice, none exceeds the bound, none is left out', {
  timeout: 60_000,
}, async () => {
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString })
  onTestFinished(() => hf.close())
  // So slow that what the first process takes outlasts the start of the last.
  const [rate, burst] = [20, 5]
  const by = { actor: 'test', reason: 'R-04' }
  await hf.limits.set('bank', { ticketsPerSecond: rate, burst }, by)
  const order: LimiterOrder = { connectionString, key: 'bank', rounds: 20, atOnce: 25, maxWaitMs: 600_000 }
  const processes = Array.from({ length: 8 }, () => startWorkerProcess(script, order))
  const told = await Promise.all(processes.map((process) => process.message('its slots', isTold)))
  const slots = told.flatMap((worker) => worker.slots).sort((a, b) => a - b)
  expect(slots).toHaveLength(8 * 20 * 25)
  const tooMany = slots.filter((first, from) =>
    slots.slice(from).some((last, more) => more + 1 > burst + (rate * (last - first + 0.001)) / 1000),
  )
  expect(tooMany).toEqual([])
  // There was demand from the first slot to the last: they lie side by side.
  const used = slots.length / (((slots.at(-1) ?? 0) - (slots[0] ?? 0)) / 1000)
  expect(used / rate).toBeGreaterThan(0.95)
})
