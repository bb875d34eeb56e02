import { describe, expect, test, vi } from 'vitest'
import { createGate, FIRST_ALONE, turnMs } from './alone.js'
import type { LostClaim } from './source.js'

const lost = (over: Partial<LostClaim> = {}): LostClaim => ({
  alone: 0,
  shared: 1,
  counted: false,
  interrupted: false,
  firstToTry: false,
  ...over,
})

describe('K-26 how long an item that was lost runs alone', () => {
  test.each([
    ['the first time, few of them', { alone: 0, shared: 2 }, 5, 1_000],
    ['the first time, many of them share ten seconds', { alone: 0, shared: 2 }, 100, 100],
    ['the first time, never too short to see it die', { alone: 0, shared: 2 }, 100_000, 50],
    ['the second time', { alone: 1, shared: 2 }, 1_000, 2_000],
    ['after three deaths alone', { alone: 3, shared: 2 }, 1, 8_000],
    ['after many losses', { alone: 0, shared: 9 }, 1, 128_000],
    ['never longer than a day', { alone: 0, shared: 5_000 }, 1, 24 * 3_600_000],
  ])('%s', (_, losses, waiting, expected) => {
    expect(turnMs(losses, waiting)).toBe(expected)
  })
})

test.each([
  ['at once', 0, 5],
  ['after 15 seconds', 15_000, 10],
  ['after 75 seconds', 75_000, 12],
  ['after 20 minutes', 1_200_000, 16],
  ['after 10 hours', 36_000_000, 21],
])(
  'K-26 an item that ends its worker %s beside steady work is alone three times within a bounded number of deaths',
  (_, after, most) => {
    let [alone, shared] = [0, 0]
    while (alone < 3 && alone + shared < 100) {
      if (alone + shared >= FIRST_ALONE && turnMs({ alone, shared }, 1) > after) alone += 1
      else shared += 1
    }
    expect({ alone, isBounded: alone + shared <= most }).toEqual({ alone: 3, isBounded: true })
  },
)

test('K-26 an item that was lost often waits longer for what runs beside it, and gets to be alone', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const gate = createGate()
    const leave = gate.enter()
    const { turn } = gate.queue(lost({ shared: 9 }))
    await vi.waitUntil(() => !gate.isOpen)
    vi.advanceTimersByTime(20_000)
    leave()
    expect(await turn).toMatchObject({ alone: true, milliseconds: 128_000 })
    expect(gate.isClosedForLong).toBe(true)
    ;(await turn)?.end()
    expect(gate.isClosedForLong).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})

test('K-26 while an item is alone nothing else begins, and afterwards it does', async () => {
  const gate = createGate()
  const turn = await gate.queue(lost()).turn
  expect(turn?.alone).toBe(true)
  expect(gate.isOpen).toBe(false)
  const begun = vi.fn()
  const entered = gate.entered().then(begun)
  await new Promise(setImmediate)
  expect(begun).not.toHaveBeenCalled()
  turn?.open()
  await entered
  expect(begun).toHaveBeenCalledOnce()
  expect(gate.isOpen).toBe(true)
})

test('K-26 what runs already is awaited before an item is alone', async () => {
  const gate = createGate()
  const leave = gate.enter()
  const { turn } = gate.queue(lost())
  const granted = vi.fn()
  void turn.then(granted)
  await vi.waitUntil(() => !gate.isOpen)
  expect(granted).not.toHaveBeenCalled()
  leave()
  expect((await turn)?.alone).toBe(true)
})

test('K-26 an item that does not get to be alone in time begins beside the others, and knows it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const gate = createGate()
    gate.enter()
    const { turn } = gate.queue(lost())
    await vi.waitUntil(() => !gate.isOpen)
    vi.advanceTimersByTime(1_000)
    expect((await turn)?.alone).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})

test('K-26 the gate is open for as long as it was closed before the next item is alone', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const gate = createGate()
    const first = gate.queue(lost())
    const second = gate.queue(lost())
    const turn = await first.turn
    vi.advanceTimersByTime(700)
    turn?.end()
    expect(gate.isOpen).toBe(true)
    vi.advanceTimersByTime(690)
    expect(gate.isOpen).toBe(true)
    vi.advanceTimersByTime(11)
    expect(gate.isOpen).toBe(false)
    expect((await second.turn)?.alone).toBe(true)
  } finally {
    vi.useRealTimers()
  }
})

test('K-26 the item that died alone before comes first, then the one that had begun when its worker died', async () => {
  const gate = createGate()
  const order: string[] = []
  const asked = [
    { name: 'neither', lost: lost() },
    { name: 'begun', lost: lost({ firstToTry: true }) },
    { name: 'alone', lost: lost({ alone: 1, firstToTry: true }) },
  ]
  await Promise.all(
    asked.map(async ({ name, lost: losses }) => {
      const turn = await gate.queue(losses).turn
      order.push(name)
      turn?.end()
    }),
  )
  expect(order).toEqual(['alone', 'begun', 'neither'])
})

test('K-26 a cancelled turn is never granted', async () => {
  const gate = createGate()
  const { turn, cancel } = gate.queue(lost())
  cancel()
  expect(await turn).toBeUndefined()
  expect(gate.isOpen).toBe(true)
})
