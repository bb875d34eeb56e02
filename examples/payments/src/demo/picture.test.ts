import { expect, test } from 'vitest'
import { drawScene, sceneLine } from './picture.js'

const scene = {
  seconds: 7,
  rate: 41.6,
  url: 'http://127.0.0.1:4180',
  workers: '2 workers',
  snapshot: {
    payments: { PROCESSING: 50, COMPLETE: 45, FAILED: 5 },
    total: 100,
    ended: 50,
    waiting: [
      { who: 'network L2', n: 30 },
      { who: 'an approver', n: 2 },
    ],
    batches: [
      {
        id: '1',
        name: 'sequential',
        model: 'PROCESS_STEP' as const,
        size: 100,
        ended: 50,
        payments: { PROCESSING: 50, COMPLETE: 45, FAILED: 5 },
        createdAt: new Date(0),
      },
    ],
    window: {
      enabled: true,
      ready: 10,
      dispatched: 5,
      completed: 4,
      failed: 1,
      configuredPerSecond: 20,
      measuredPerSecond: 19.6,
    },
  },
}

test('the live view shows counts, the rate, a bar per batch, and whom payments wait for', () => {
  const lines = drawScene(scene, 200)
  expect(lines.join('\n')).toBe(`Holdfast payments   http://127.0.0.1:4180   2 workers
7 s   50 of 100 settled   42/s   50 PROCESSING, 45 COMPLETE, 5 FAILED

sequential     ███████████████░░░░░░░░░░░░░░░  50 %   50 PROCESSING, 45 COMPLETE, 5 FAILED

window        10 ready, 5 dispatched, 4 completed, 1 failed, at 20/s (20/s in the last minute)
waiting for   network L2: 30   an approver: 2`)
  expect(drawScene(scene, 40).every((line) => line.length < 40)).toBe(true)
})

test('a window that is switched off says so; one that has released everything has no rate', () => {
  const { window } = scene.snapshot
  const lineOf = (change: object) =>
    sceneLine({ ...scene, snapshot: { ...scene.snapshot, window: { ...window, ...change } } })
  expect(lineOf({ enabled: false })).toContain('1 failed, SWITCHED OFF;')
  expect(lineOf({ ready: 0 })).toContain('1 failed;')
})

test('without a terminal it is one line', () => {
  expect(sceneLine(scene)).toBe(
    '7 s: 50 of 100 settled, 42/s (50 PROCESSING, 45 COMPLETE, 5 FAILED); window: 10 ready, 5 dispatched, 4 completed, 1 failed, at 20/s (20/s in the last minute); waiting for network L2 30, an approver 2',
  )
})
