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
const idOf = (n: string) => `0190163d-8694-739b-aea5-00000000000${n}`
const record = (model: 'commands' | 'processes', n: string) => ({
  model,
  domain: 'd',
  type: 't',
  id: idOf(n),
  step: null,
  failureId: '1700000000000001',
})

/** Each part of two is answered by the next of these; the parts that were asked for are kept. */
function answering(...answers: (undefined | HoldfastError)[]) {
  const parts: string[][] = []
  const operator: BulkOperator = {
    atOnce: 2,
    async operate(_, __, items) {
      parts.push(items.map(({ id }) => id.slice(-1)))
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
  expect(results.map(({ id, outcome, code }) => [id.slice(-1), outcome, code])).toEqual([
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

test('U-06 work is selected before anything is done: a page that cannot be read loses no results', async () => {
  const { parts, operators } = answering()
  let pages = 0
  const breaking: Database = Object.assign(Object.create(null), {
    async run() {
      pages += 1
      if (pages === 2) throw new Error('the second page cannot be read')
      return Array.from({ length: 1_000 }, (_, n) => ({ ...record('commands', '1'), place: `${n}` }))
    },
  })
  await expect(operateTroubles(breaking, operators, call, { type: 't' })).rejects.toThrow('the second page')
  expect(pages).toBe(2)
  expect(parts).toEqual([])
})

test('U-06 a page is read again after the connection was lost, because reading changes nothing', async () => {
  const { parts, operators } = answering()
  let reads = 0
  const flickering: Database = Object.assign(Object.create(null), {
    async run() {
      reads += 1
      if (reads === 1) throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      return [{ ...record('commands', '1'), place: '1' }]
    },
  })
  expect(await operateTroubles(flickering, operators, call, { type: 't' })).toMatchObject([{ outcome: 'done' }])
  expect(parts).toEqual([['1']])
})
