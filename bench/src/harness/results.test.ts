import { describe, expect, test } from 'vitest'
import { resultsOf } from './results.js'
import type { RoundMeasurement } from './rounds.js'
import type { System, Workload } from './workload.js'

type About = Pick<System, 'name' | 'role'> & Partial<System>

const system = (about: About): System => ({
  version: '1.0.0',
  config: {},
  anythingLeft: 'select false',
  prepare: () => Promise.reject(new Error('nothing runs here')),
  open: () => Promise.reject(new Error('nothing runs here')),
  ...about,
})

const round = (value: number, details: Record<string, number> = {}): RoundMeasurement => ({
  value,
  details,
  walBytesPerItem: 1,
  statementsPerItem: null,
  nodeCpuPerItem: 1,
  postgresCpuPerItem: null,
  peakRssMb: 1,
  yardstick: 1,
})

function ratios(better: Workload['better'], measured: readonly (readonly [About, ...number[]])[]) {
  const rounds = new Map(measured.map(([about, ...values]) => [system(about), values.map((value) => round(value))]))
  const systems = [...rounds.keys()]
  const workload = { name: 'w', unit: 'u', measures: '', items: 1, systems: () => systems, ...(better && { better }) }
  const results = resultsOf({ workload, options: {}, systems, items: 1, rounds: 1 }, rounds)
  return results.map(({ ratio, comparedWith }) => [ratio, comparedWith])
}

describe('results', () => {
  test('compare medians with the best peer', () => {
    expect(
      ratios(undefined, [
        [{ name: 'ours', role: 'holdfast' }, 10, 90, 60],
        [{ name: 'theirs', role: 'peer' }, 30, 20, 900],
        [{ name: 'slow', role: 'peer' }, 3, 3, 3],
      ]),
    ).toEqual([
      [2, 'theirs'],
      [1, 'theirs'],
      [0.1, 'theirs'],
    ])
  })

  test('compare with the peer of the smallest value where less is better', () => {
    expect(
      ratios('lower', [
        [{ name: 'ours', role: 'holdfast' }, 2],
        [{ name: 'quick', role: 'peer' }, 4],
        [{ name: 'slow', role: 'peer' }, 8],
      ]),
    ).toEqual([
      [0.5, 'quick'],
      [1, 'quick'],
      [2, 'quick'],
    ])
  })

  test('compare within a group only', () => {
    expect(
      ratios(undefined, [
        [{ name: 'ours in a', role: 'holdfast', group: 'a' }, 5],
        [{ name: 'theirs in a', role: 'peer', group: 'a' }, 10],
        [{ name: 'theirs in b', role: 'peer', group: 'b' }, 1000],
        [{ name: 'alone', role: 'holdfast', group: 'c' }, 7],
      ]),
    ).toEqual([
      [0.5, 'theirs in a'],
      [1, 'theirs in a'],
      [1, 'theirs in b'],
      [null, null],
    ])
  })

  test('compare with the baseline of the group', () => {
    expect(
      ratios('lower', [
        [{ name: 'few', role: 'holdfast', group: 'ours', baseline: true }, 2],
        [{ name: 'many', role: 'holdfast', group: 'ours' }, 3],
      ]),
    ).toEqual([
      [1, 'few'],
      [1.5, 'few'],
    ])
  })

  test('have medians of the details too', () => {
    const ours = system({ name: 'ours', role: 'holdfast' })
    const rounds = new Map([[ours, [round(1, { p95: 9 }), round(1, { p95: 3 }), round(1, { p95: 5 })]]])
    const workload = { name: 'w', unit: 'ms', measures: '', items: 1, systems: () => [ours] }
    const [result] = resultsOf({ workload, options: {}, systems: [ours], items: 1, rounds: 3 }, rounds)
    expect(result?.details).toEqual({ p95: 5 })
  })
})
