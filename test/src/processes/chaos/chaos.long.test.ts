import { setTimeout as sleep } from 'node:timers/promises'
import { startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import type { Holdfast } from 'holdfast'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { booksOf, faultsIn } from '../books.js'
import { notesTable, openNotes } from '../notes.js'
import { type Fate, fates, ordersOf } from './orders.js'

const script = new URL('../../../dist/processes/chaos/worker-process.js', import.meta.url)
const ORDERS = 1_000
const WORKERS = 8
const KILLED_EACH_SECOND = 2
/** The killing ends after that at the latest, and the responses have all been sent long before. */
const LONGEST = 30_000
const RESPONDING = 8_000

const kinds: readonly Fate[] = ['good', 'good', 'good', 'refused', 'broken', 'unanswered']
const fateOf = (n: number): Fate => kinds[n % kinds.length] ?? 'good'

/**
 * A crew of worker processes. Every second two that work are killed and replaced, unless the machine is so slow that
 * most of their successors have not begun yet.
 */
function startCrew(options: object) {
  const crew = new Set(Array.from({ length: WORKERS }, () => startWorkerProcess(script, options)))
  let killed = 0
  let over = false
  async function kill(): Promise<void> {
    const until = performance.now() + LONGEST
    while (!over && performance.now() < until) {
      await sleep(1_000)
      const working = [...crew].filter(({ messages }) => messages.length > 0)
      if (working.length < WORKERS / 2) continue
      // The oldest: they have the most to lose.
      for (const victim of working.slice(0, KILLED_EACH_SECOND)) {
        crew.delete(victim)
        await victim.kill()
        crew.add(startWorkerProcess(script, options))
        killed += 1
      }
    }
  }
  return {
    killing: kill(),
    get killed() {
      return killed
    },
    stopKilling: () => {
      over = true
    },
    end: () => Promise.all([...crew].map((worker) => worker.kill())),
  }
}

type Orders = ReturnType<typeof ordersOf>

/** Both responses of each order, each twice, in no order at all: some before anybody waits, some long after. */
async function respondToAll(hf: Holdfast, Order: Orders, ids: readonly string[]): Promise<void> {
  const answered = ids.filter((_, n) => fateOf(n) !== 'unanswered')
  const sends = answered.flatMap((id, n) => {
    const pay = () => hf.process(Order, id).respond('paid', { amount: n }, { responseId: 'payment' })
    const ship = () => hf.process(Order, id).respond('shipped', { parcel: n }, { responseId: 'shipment' })
    return [pay, pay, ship, ship].map((send) => ({ send, at: Math.random() * RESPONDING }))
  })
  const sending: Promise<void>[] = []
  const began = performance.now()
  for (const { send, at } of sends.sort((a, b) => a.at - b.at)) {
    const early = at - (performance.now() - began)
    if (early > 20) await sleep(early)
    sending.push(send())
  }
  await Promise.all(sending)
}

test(`P-17 P-11 ${ORDERS} processes, eight workers of which two are killed every second, responses twice and in any order: the books balance`, async () => {
  const { connectionString } = await testDatabase()
  const pool = new pg.Pool({ connectionString, max: 4 })
  await pool.query(notesTable)
  const notes = openNotes(connectionString)
  const Order = ordersOf('chaos', notes)
  const hf = assemble(await openDatabase({ connectionString }), {})
  const states = Array.from({ length: ORDERS }, (_, n) => ({ input: { fate: fateOf(n) } }))
  const started = await hf.startMany(Order, states)
  const ids = started.map(({ id }) => id)

  const crew = startCrew({ connectionString, domain: 'chaos' })
  await respondToAll(hf, Order, ids)
  const settled = `select count(*)::int as n from holdfast.process
    where status in ('COMPLETED', 'COMPENSATED', 'FAILED', 'CANCELLED', 'WAITING_FOR_TSQ')`
  await waitFor(
    'every order has ended or needs a person',
    async () => (await pool.query<{ n: number }>(settled)).rows[0]?.n === ORDERS,
    { timeout: LONGEST + 240_000, every: 100 },
  )
  crew.stopKilling()
  await crew.killing
  await crew.end()

  const books = new Map((await booksOf(pool, ids)).map((book) => [book.id, book]))
  for (const [n, id] of ids.entries()) {
    const fate = fateOf(n)
    const book = books.get(id)
    if (!book) throw new Error(`the order ${id} is gone`)
    const where = `${fate} ${id}`
    // Any number of its workers may have been killed; that explains calls before a record, and none after it.
    expect(faultsIn(book, Number.POSITIVE_INFINITY), where).toEqual([])
    const unanswered = fate === 'unanswered'
    expect(book, where).toMatchObject({
      status: fates[fate],
      responses: unanswered ? 0 : 2,
      bookings: unanswered ? [] : ['order'],
      state: { payments: unanswered ? 0 : 1, parcels: unanswered ? [] : [expect.any(Number)] },
      leased: false,
    })
    if (fate === 'broken') expect(book.errorCode, where).toBe('PERMANENT_FAILURE')
    const undone = book.records.filter(({ kind, status }) => kind === 'COMPENSATION' && status === 'COMPLETED')
    expect(undone, where).toHaveLength(fate === 'refused' ? 1 : 0)
  }
  expect(crew.killed).toBeGreaterThanOrEqual(KILLED_EACH_SECOND)
  await hf.close()
  await notes.close()
  await pool.end()
}, 150_000)
