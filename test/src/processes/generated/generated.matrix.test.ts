import { longOr, testDatabase } from '@holdfast/testing/internal'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { faultsIn, type ProcessBooks } from '../books.js'
import { notesTable } from '../notes.js'
import { isSettled, placeOf } from './interpreter.js'
import { type Program, programs } from './program.js'
import { type Run, runProgram } from './run-program.js'

let database: { connectionString: string; pool: pg.Pool }
beforeAll(async () => {
  const { connectionString } = await testDatabase()
  database = { connectionString, pool: new pg.Pool({ connectionString, max: 6 }) }
  database.pool.on('error', () => undefined)
  await database.pool.query(notesTable)
})
afterAll(() => database.pool.end())

interface ProgramState {
  readonly total: number
  readonly log: readonly string[]
}

/** What may not depend on who was faster or on who was killed. */
function endOf({ status, errorCode, result, state }: ProcessBooks) {
  const { total, log } = state as ProgramState
  const places = log.map(placeOf).filter(isSettled).sort()
  // In troubleshooting, what comes later is met when it goes on.
  return { status, errorCode, result, places, total: status === 'WAITING_FOR_TSQ' ? undefined : total }
}

function checkBooks({ book, seen, deaths }: Run): void {
  expect(faultsIn(book, deaths)).toEqual([])
  const transactions = book.records.filter(({ kind, status }) => kind === 'TRANSACTION' && status === 'COMPLETED')
  expect(book.bookings).toHaveLength(transactions.length)
  // Whatever anybody outside was ever told of is in the record: a replay sees the same, in the same order.
  const { log } = book.state as ProgramState
  const booked = book.bookings.map((what): string[] => JSON.parse(what))
  for (const known of [...seen, ...booked]) expect(log.slice(0, known.length)).toEqual(known)
  const undone = book.records.filter(({ kind, status }) => kind === 'COMPENSATION' && status === 'COMPLETED')
  const order = undone.map(({ call }) => book.records.findLast((record) => `undo ${record.call}` === call)?.seq ?? 0)
  expect(order).toEqual(order.toSorted((a, b) => b - a))
}

const lives = fc.array(fc.integer({ min: 8, max: 80 }), { minLength: 1, maxLength: 3 })

test('P-09 P-17 a generated program ends the same whether or not its workers are killed, and calls each recorded step once', async () => {
  let killed = 0
  const until = performance.now() + longOr(90_000, 10_000)
  // Once the time is up the rest is left out, but not before a worker was killed: a busy machine may not get to that in time.
  const property = fc.asyncProperty(programs, lives, async (program, killAt) => {
    if (killed === 0 || performance.now() < until) await compare(program, killAt)
  })
  async function compare(program: Program, killAt: readonly number[]): Promise<void> {
    const [straight, disturbed] = await Promise.all([
      runProgram(database, program, []),
      runProgram(database, program, killAt),
    ])
    killed += disturbed.deaths
    checkBooks(straight)
    checkBooks(disturbed)
    expect(endOf(disturbed.book)).toEqual(endOf(straight.book))
  }
  // Failing, it names the seed and the path to come back to.
  await fc.assert(property, { numRuns: longOr(400, 30) })
  expect(killed).toBeGreaterThan(0)
}, 300_000)
