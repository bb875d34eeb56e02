import {
  type Faults,
  inLanes,
  isLongRun,
  recordPoints,
  sampled,
  startWorkerProcess,
  testDatabase,
  waitFor,
} from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { booksOf, endsOf, faultsIn, type ProcessBooks } from './books.js'
import { processesOf } from './definitions.js'
import { type Notes, notesTable, openNotes } from './notes.js'

const script = new URL('../../dist/processes/worker-process.js', import.meta.url)
/** Longer than a busy machine keeps a worker from its heartbeat: a call under way is not made twice. */
const WORKER = { concurrency: 5, lease: '3s', poll: '30ms' } as const
/** Processes are slow to start where many tests share few cores. */
const PATIENCE = 90_000
const ENDS = ['COMPLETED', 'COMPENSATED', 'WAITING_FOR_TSQ']

type Kind = 'Journey' | 'Undone' | 'Careful'
interface KillPoint {
  readonly point: string
  readonly time: number
}

let connectionString: string
let pool: pg.Pool
let notes: Notes
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  pool = new pg.Pool({ connectionString, max: 4 })
  notes = openNotes(connectionString)
  await pool.query(notesTable)
})
afterAll(async () => {
  await notes.close()
  await pool.end()
})

async function bookOf(id: string): Promise<ProcessBooks> {
  const [book] = await booksOf(pool, [id])
  if (!book) throw new Error(`no process ${id}`)
  return book
}

async function endOf(id: string): Promise<ProcessBooks> {
  return waitFor(
    `${id} has ended`,
    async () => {
      const book = await bookOf(id)
      return ENDS.includes(book.status) ? book : undefined
    },
    { timeout: PATIENCE },
  )
}

/** Opens the installation of one round, with one process in it that a worker is to run. */
async function openRound(kind: Kind, domain: string, faults?: Faults) {
  const db = await openDatabase({ connectionString, poolSize: 4, ...(faults ? { faults } : {}) })
  const hf = assemble(db, {})
  const processes = processesOf(domain, notes)
  processes.registerAll(hf)
  const { id } =
    kind === 'Journey'
      ? await hf.start(processes.Journey, {}, { immediate: false })
      : kind === 'Undone'
        ? await hf.start(processes.Undone, {}, { immediate: false })
        : await hf.start(processes.Careful, {}, { immediate: false })
  async function approve(): Promise<void> {
    if (kind !== 'Journey') return
    await waitFor('it waits for approval', async () => (await bookOf(id)).waitingFor === 'approval', {
      timeout: PATIENCE,
    })
    // Twice: the second time is no other approval.
    const options = { responseId: 'the approval' }
    await hf.process(processes.Journey, id).respond('approved', { by: 'me' }, options)
    await hf.process(processes.Journey, id).respond('approved', { by: 'me' }, options)
  }
  const approving = approve()
  // Whoever fails first is to be heard.
  approving.catch(() => undefined)
  return { hf, id, approving }
}

/** The statements of an undisturbed run, each as often as it was sent, and how the process ended. */
async function undisturbed(kind: Kind): Promise<{ book: ProcessBooks; points: KillPoint[] }> {
  const { faults, points } = recordPoints()
  const { hf, id, approving } = await openRound(kind, `straight-${kind}`, faults)
  const worker = await hf.run(WORKER)
  const book = await endOf(id)
  await approving
  await worker.stop()
  await hf.close()
  return { book, points: killPoints(points) }
}

/** Polls are sent as often as time allows: their first two are enough. */
function killPoints(passed: readonly string[]): KillPoint[] {
  const counts = new Map<string, number>()
  const found: KillPoint[] = []
  for (const point of passed) {
    if (!/ (processes\.|begin$|commit$)/.test(point) || /flush-starts/.test(point)) continue
    const time = (counts.get(point) ?? 0) + 1
    counts.set(point, time)
    const polls = /claim|extend|news|settings/.test(point)
    if (time <= (polls ? 2 : 20)) found.push({ point, time })
  }
  return found
}

/** One worker is killed there, another goes on. Answers the end, and whether the first came as far as that. */
async function killAndRecover(kind: Kind, domain: string, dies: KillPoint) {
  const { hf, id, approving } = await openRound(kind, domain)
  const victim = startWorkerProcess(script, { connectionString, domain, dies, lease: WORKER.lease })
  const killed = await Promise.race([victim.ended.then(() => true), endOf(id).then(() => false)])
  if (!killed) await victim.kill()
  await pool.query(endLeaseText, [id])
  const heir = await hf.run(WORKER)
  const book = await endOf(id)
  await approving
  await heir.stop()
  await hf.close()
  return { id, book, killed }
}

const endLeaseText = `
  update holdfast.process set due_at = holdfast.now() where id = $1 and leased_by like 'victim %'`

async function killEverywhere(kind: Kind, check: (book: ProcessBooks, straight: ProcessBooks, where: string) => void) {
  const { book: straight, points } = await undisturbed(kind)
  const reached = new Set<string>()
  await inLanes(sampled(points, 3), 4, async (dies, place) => {
    const { book, killed } = await killAndRecover(kind, `kill-${kind}-${place}`, dies)
    const where = `${kind} killed ${dies.point} (${dies.time})`
    if (killed) reached.add(dies.point)
    expect(faultsIn(book, killed ? 1 : 0), where).toEqual([])
    expect(book.leased, where).toBe(false)
    check(book, straight, where)
  })
  return reached
}

const sameEnd = (book: ProcessBooks, straight: ProcessBooks, where: string) => {
  const { status, state, result, bookings } = straight
  expect(book, where).toMatchObject({ status, state, result, bookings })
  expect(endsOf(book), where).toEqual(endsOf(straight))
}

test('P-17 a worker killed before or after any statement of a process: each recorded step ran once, and it ends as if nothing had happened', async () => {
  const reached = await killEverywhere('Journey', (book, straight, where) => {
    expect(straight, where).toMatchObject({
      status: 'COMPLETED',
      bookings: ['journey'],
      state: { steps: 6, approvals: 1 },
    })
    sameEnd(book, straight, where)
    expect(
      book.calls.filter(({ call }) => call === 'once'),
      where,
    ).toHaveLength(1)
  })
  const statements = ['claim', 'write', 'hold', 'start', 'respond', 'claim-inbox', 'inbox-done']
  const ours = [...statements.map((name) => `processes.${name}`), 'begin', 'commit']
  if (!isLongRun) return
  expect([...reached]).toEqual(expect.arrayContaining(ours.flatMap((name) => [`before ${name}`, `after ${name}`])))
}, 400_000)

test('P-14 a worker killed before or after any statement of a compensation: each step is undone once, in order', async () => {
  const reached = await killEverywhere('Undone', (book, straight, where) => {
    expect(straight, where).toMatchObject({ status: 'COMPENSATED', errorCode: 'NOT_TO_BE', bookings: ['undone'] })
    expect(book.status, where).toBe('COMPENSATED')
    expect(book.bookings, where).toEqual(['undone'])
    expect(endsOf(book), where).toEqual(endsOf(straight))
    const done = book.records.filter(({ kind, status }) => kind !== 'COMPENSATION' && status === 'COMPLETED')
    const undone = book.records.filter(({ kind, status }) => kind === 'COMPENSATION' && status === 'COMPLETED')
    const kept = done.filter(({ kind }) => kind !== 'SLEEP').map(({ call }) => `undo ${call}`)
    expect(
      undone.map(({ call }) => call),
      where,
    ).toEqual(kept.reverse())
  })
  if (isLongRun)
    expect([...reached]).toEqual(expect.arrayContaining(['before processes.write', 'after processes.write']))
}, 400_000)

test('P-17 a step that must not be repeated is never called twice, wherever its worker is killed', async () => {
  const ends = new Set<string>()
  await killEverywhere('Careful', (book, _straight, where) => {
    const paid = book.calls.filter(({ call }) => call === 'pay').length
    expect(paid, where).toBeLessThanOrEqual(1)
    if (book.status === 'COMPLETED') expect(paid, where).toBe(1)
    else expect(book, where).toMatchObject({ status: 'WAITING_FOR_TSQ', errorCode: 'OUTCOME_UNKNOWN' })
    ends.add(book.status)
  })
  // Killed between the record of the call and that of its end, the outcome is unknown.
  if (isLongRun) expect(ends).toEqual(new Set(['COMPLETED', 'WAITING_FOR_TSQ']))
}, 400_000)
