import { expect, test } from 'vitest'
import type { Result } from '../results.js'
import type { RoundMeasurement } from '../rounds.js'
import { table } from './table.js'

function result(name: string, details: Record<string, number>): Result {
  const round: RoundMeasurement = {
    value: 1,
    details,
    walBytesPerItem: 2,
    statementsPerItem: null,
    nodeCpuPerItem: 3,
    postgresCpuPerItem: null,
    peakRssMb: 4,
    yardstick: 5,
  }
  const nothing = () => Promise.reject(new Error('nothing runs here'))
  const about = { name, version: '1.0.0', config: {}, role: 'holdfast', anythingLeft: 'select false' } as const
  const system = { ...about, prepare: nothing, open: nothing }
  const compared = { ratio: null, comparedWith: null, rounds: [round] }
  return { workload: 'w', unit: 'ms', better: 'lower', system, role: 'holdfast', ...round, ...compared }
}

test('systems that report different details keep to their columns', () => {
  const lines = table([result('a', { p95: 10 }), result('b', { promised: 20 })], 'heading').split('\n')
  const cells = lines.filter((line) => /^(system|a|b) /.test(line)).map((line) => line.trim().split(/\s{2,}/))
  expect(cells.map((row) => row.slice(0, 5))).toEqual([
    ['system', 'ms', 'p95', 'promised', 'ratio'],
    ['a', '1.00', '10.00', '–', '–'],
    ['b', '1.00', '–', '20.00', '–'],
  ])
})
