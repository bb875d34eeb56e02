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
import type { WorkflowDefinition } from 'holdfast'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { booksOf, faultsIn, type InstanceBooks } from './books.js'
import { workflowsOf } from './definitions.js'
import { type Notes, notesTable, openNotes } from './notes.js'

const script = new URL('../../dist/workflows/worker-process.js', import.meta.url)
/** Long enough for a stalled machine: the leases of a dead worker are ended by hand. */
const WORKER = { concurrency: 5, lease: '9s', poll: '30ms' } as const
/** Processes are slow to start where many tests share few cores. */
const PATIENCE = 90_000

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

async function endOf(id: string): Promise<InstanceBooks> {
  return waitFor(
    `${id} has ended`,
    async () => {
      const [book] = await booksOf(pool, [id])
      return book && ['COMPLETED', 'FAILED'].includes(book.status) ? book : undefined
    },
    { timeout: PATIENCE },
  )
}

async function openRound(kind: Kind, round: string, faults?: Faults) {
  const hf = assemble(await openDatabase({ connectionString, poolSize: 4, ...(faults ? { faults } : {}) }), {})
  const workflows = workflowsOf(round)
  const { id } = await hf.start(workflows[kind] as WorkflowDefinition)
  workflows.handleAll(hf, notes)
  return { hf, id }
}

/** The statements of an undisturbed run, each as often as it was sent, and how the instance ended. */
async function undisturbed(kind: Kind): Promise<{ book: InstanceBooks; points: KillPoint[] }> {
  const { faults, points } = recordPoints()
  const { hf, id } = await openRound(kind, `straight ${kind}`, faults)
  const worker = await hf.run(WORKER)
  const book = await endOf(id)
  await worker.stop()
  await hf.close()
  return { book, points: killPoints(points) }
}

/** Polls are sent as often as time allows; their first few are enough. */
function killPoints(passed: readonly string[]): KillPoint[] {
  const counts = new Map<string, number>()
  const found: KillPoint[] = []
  for (const point of passed) {
    if (!/ (workflows\.|begin$|commit$)/.test(point) || /\.start$|store-definition|find-end/.test(point)) continue
    const time = (counts.get(point) ?? 0) + 1
    counts.set(point, time)
    const most = /extend|handlers|lease|aborted/.test(point) ? 1 : /write/.test(point) ? 20 : 3
    if (time <= most) found.push({ point, time })
  }
  return found
}

/** One worker is killed there, another goes on. Answers the end, and whether the first came as far as that. */
async function killAndRecover(kind: Kind, round: string, dies: KillPoint) {
  const { hf, id } = await openRound(kind, round)
  const victim = startWorkerProcess(script, { connectionString, round, dies })
  const killed = await Promise.race([victim.ended.then(() => true), endOf(id).then(() => false)])
  if (!killed) await victim.kill()
  await pool.query(endLeasesText, [id])
  const heir = await hf.run(WORKER)
  const book = await endOf(id)
  await heir.stop()
  await hf.close()
  return { book, killed }
}

const endLeasesText = `
  update holdfast.workflow_step set due_at = holdfast.now() where workflow_id = $1 and leased_by like 'victim %'`

async function killEverywhere(
  kind: Kind,
  check: (book: InstanceBooks, straight: InstanceBooks, where: string) => void,
) {
  const { book: straight, points } = await undisturbed(kind)
  expect(faultsIn(straight)).toEqual([])
  const reached = new Set<string>()
  await inLanes(sampled(points, 3), 4, async (dies, place) => {
    const { book, killed } = await killAndRecover(kind, `${kind} ${place}`, dies)
    const where = `${kind} killed ${dies.point} (${dies.time})`
    if (killed) reached.add(dies.point)
    expect(faultsIn(book, 1), where).toEqual([])
    check(book, straight, where)
  })
  return reached
}

const bothSides = (...names: string[]) => names.flatMap((name) => [`before ${name}`, `after ${name}`])
const statusesOf = ({ steps }: InstanceBooks) => Object.fromEntries(steps.map(({ name, status }) => [name, status]))

test('W-05 W-07 a worker killed before or after any statement of a chain, a retry, a fork and a transaction: it ends as if nothing had happened', async () => {
  const reached = await killEverywhere('Journey', (book, straight, where) => {
    expect(straight).toMatchObject({ status: 'COMPLETED', output: 'last', bookings: ['book'] })
    const { status, output, bookings } = straight
    expect(book, where).toMatchObject({ status, output, bookings })
    expect(statusesOf(book), where).toEqual(statusesOf(straight))
  })
  if (!isLongRun) return
  expect([...reached]).toEqual(
    expect.arrayContaining(bothSides('workflows.claim', 'workflows.write', 'workflows.hold-step', 'begin', 'commit')),
  )
}, 400_000)

test('W-08 a worker killed before or after any statement of a rollback: every step is undone once, in order', async () => {
  const reached = await killEverywhere('Undone', (book, straight, where) => {
    const expected = { status: 'FAILED', failedStep: 'declined', errorCode: 'NOT_TO_BE' }
    expect(straight).toMatchObject({ ...expected, bookings: ['third', 'undo declined'] })
    expect(book, where).toMatchObject({ ...expected, bookings: ['third', 'undo declined'] })
    expect(statusesOf(book), where).toEqual(statusesOf(straight))
    const undone = book.events.filter(({ type }) => type === 'compensation_success').map(({ step }) => step)
    expect(undone[0], where).toBe('declined')
    expect(new Set(undone), where).toEqual(new Set(['both', 'declined', 'first', 'second', 'third', 'together']))
  })
  if (isLongRun)
    expect([...reached]).toEqual(expect.arrayContaining(bothSides('workflows.claim', 'workflows.write', 'commit')))
}, 400_000)

test('W-01 a step that must not be repeated is never called twice, wherever its worker is killed', async () => {
  const ends = new Set<string>()
  await killEverywhere('Careful', (book, _straight, where) => {
    const paid = book.calls.filter(({ call }) => call === 'pay').length
    expect(paid, where).toBeLessThanOrEqual(1)
    if (book.status === 'COMPLETED') expect(paid, where).toBe(1)
    else expect(book, where).toMatchObject({ status: 'FAILED', failedStep: 'pay', errorCode: 'OUTCOME_UNKNOWN' })
    ends.add(book.status)
  })
  // Killed between its claim and the record of its end, the outcome is unknown.
  if (isLongRun) expect(ends).toEqual(new Set(['COMPLETED', 'FAILED']))
}, 400_000)
