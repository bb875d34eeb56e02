import { expect, test } from 'vitest'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import type { BulkOperator } from '../kernel/model/bulk.js'
import { operateTroubles } from './operate.js'

const call = {
  verb: 'retry',
  by: { actor: 'ann', reason: 'test' },
  notDone: false,
  compensate: true,
  result: undefined,
} as const
const db: Database = Object.create(null)
const record = (model: 'commands' | 'processes', id: string) => ({ model, domain: 'd', type: 't', id, step: null })

/** Each part of two is answered by the next of these; the parts that were asked for are kept. */
function answering(...answers: (undefined | HoldfastError)[]) {
  const parts: string[][] = []
  const operator: BulkOperator = {
    atOnce: 2,
    async operate(_, __, items) {
      parts.push(items.map(({ id }) => id))
      const answer = answers.shift()
      if (answer) throw answer
      return items.map(() => undefined)
    },
  }
  return { parts, operators: { commands: operator, processes: operator, workflows: operator, dispatch: operator } }
}

const away = new HoldfastError('HF_DATABASE_UNAVAILABLE', { operation: 'retry', waited: '5s', problem: 'gone' })
const lost = new HoldfastError('HF_OUTCOME_UNKNOWN', { operation: 'retry', problem: 'lost' })

test('U-06 once the database is unreachable no further part is tried, and the rest is refused with the same error', async () => {
  const { parts, operators } = answering(undefined, away)
  const which = ['1', '2', '3', '4', '5'].map((id) => record('commands', id))
  const results = await operateTroubles(db, operators, call, [...which, record('processes', '6')])
  expect(parts).toEqual([
    ['1', '2'],
    ['3', '4'],
  ])
  expect(results.map(({ id, outcome, code }) => [id, outcome, code])).toEqual([
    ['1', 'done', undefined],
    ['2', 'done', undefined],
    ['3', 'refused', 'HF_DATABASE_UNAVAILABLE'],
    ['4', 'refused', 'HF_DATABASE_UNAVAILABLE'],
    ['5', 'refused', 'HF_DATABASE_UNAVAILABLE'],
    ['6', 'refused', 'HF_DATABASE_UNAVAILABLE'],
  ])
})

test('U-06 a commit whose response was lost is reported for its part, and the other parts are done', async () => {
  const { parts, operators } = answering(lost)
  const results = await operateTroubles(
    db,
    operators,
    call,
    ['1', '2', '3'].map((id) => record('commands', id)),
  )
  expect(parts).toHaveLength(2)
  expect(results.map(({ code }) => code)).toEqual(['HF_OUTCOME_UNKNOWN', 'HF_OUTCOME_UNKNOWN', undefined])
})

test('U-06 a record that is given twice counts once', async () => {
  const { parts, operators } = answering()
  expect(await operateTroubles(db, operators, call, [record('commands', '1'), record('commands', '1')])).toHaveLength(1)
  expect(parts).toEqual([['1']])
})
