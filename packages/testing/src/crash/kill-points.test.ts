import { expect, test } from 'vitest'
import { planDeliveries } from './deliveries.js'
import { describeKill, formatSeed, killPointsOf, parseSeed, spread } from './kill-points.js'

const passed = [
  'before m.claim',
  'after m.claim',
  'before m.write',
  'after m.write',
  'before clock.move',
  'before m.claim',
  'before m.claim',
  'before m.write',
]
const polls = new Set(['before m.claim', 'after m.claim'])

test('X-02 every step is killed before and after what it records; polls are left out', () => {
  expect(killPointsOf(passed, polls, 'every-step')).toEqual([
    { point: 'before m.write', time: 1 },
    { point: 'after m.write', time: 1 },
    { point: 'before m.write', time: 2 },
  ])
})

test('X-02 every statement is killed before and after; polls, whose number varies, the first two times', () => {
  expect(killPointsOf(passed, polls, 'every-statement').map(({ point, time }) => `${point}#${time}`)).toEqual([
    'before m.claim#1',
    'after m.claim#1',
    'before m.write#1',
    'after m.write#1',
    'before m.claim#2',
    'before m.write#2',
  ])
})

test('X-02 fewer kills are spread from the first point to the last', () => {
  const all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
  expect(spread(all)).toEqual(all)
  expect(spread(all, 20)).toEqual(all)
  expect(spread(all, 4)).toEqual([0, 3, 6, 9])
  expect(spread(all, 1)).toEqual([0])
  expect(spread([], 3)).toEqual([])
})

test('X-02 a seed is one line that says everything', () => {
  for (const seed of ['0', '7', '1:before processes.write#12', '3:after commit#1', '0:after call pay#1 then cancel']) {
    expect(formatSeed(parseSeed(seed))).toBe(seed)
  }
  expect(describeKill(parseSeed('1:before m.write#2'))).toBe(
    'when its worker is killed before m.write, passed for the 2. time',
  )
  expect(describeKill(parseSeed('0:after call pay#1 then cancel'))).toBe(
    'when its worker is killed after call pay, and it is cancelled then',
  )
  for (const bad of ['', 'x', '1:', '1:before', '-1', '1:during m.write#1'])
    expect(() => parseSeed(bad)).toThrow('seed')
})

test('X-02 responses come once and in order, or by a seed twice, in any order, and late', () => {
  expect(planDeliveries(2, 0)).toEqual({ early: [], during: [0, 1], late: [] })
  const orders = new Set<string>()
  for (let order = 1; order <= 50; order++) {
    const plan = planDeliveries(2, order)
    expect([...plan.early, ...plan.during].toSorted((a, b) => a - b)).toEqual([0, 0, 1, 1])
    expect(new Set(plan.late)).toEqual(new Set([0, 1]))
    expect(planDeliveries(2, order)).toEqual(plan)
    orders.add([...plan.early, ...plan.during].join(''))
  }
  // Of two responses that come twice there are six orders.
  expect(orders.size).toBe(6)
})
