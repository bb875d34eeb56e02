import { startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { booksOf, faultsIn, type ProcessBooks } from './books.js'
import { processesOf } from './definitions.js'
import { type Notes, notesTable, openNotes } from './notes.js'

const script = new URL('../../dist/processes/zombie-process.js', import.meta.url)
/** Processes are slow to start where many tests share few cores. */
const PATIENCE = 60_000
/** Longer than a busy machine keeps a worker from its heartbeat: the worker that takes over makes each call once. */
const WORKER = { concurrency: 5, lease: '5s', poll: '30ms' } as const

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

const says =
  (what: string) =>
  (message: unknown): message is object =>
    typeof message === 'object' && message !== null && 'what' in message && message.what === what

async function bookOf(id: string): Promise<ProcessBooks> {
  const [book] = await booksOf(pool, [id])
  if (!book) throw new Error(`no process ${id}`)
  return book
}

async function endOf(id: string): Promise<ProcessBooks> {
  const ended = async () => {
    const book = await bookOf(id)
    return ['COMPLETED', 'COMPENSATED'].includes(book.status) ? book : undefined
  }
  return waitFor(`${id} has ended`, ended, { timeout: PATIENCE })
}

async function open(domain: string) {
  const hf = assemble(await openDatabase({ connectionString, poolSize: 4 }), {})
  const processes = processesOf(domain, notes)
  processes.registerAll(hf)
  return { hf, processes }
}

test.each([
  { what: 'in a step', standsAt: { call: 'first' }, says: 'refused' },
  { what: 'before a step is recorded', standsAt: { point: 'before processes.write' }, says: 'refused' },
  // It finds out by its own clock, and does not even begin.
  { what: 'after it has claimed', standsAt: { point: 'after processes.claim' }, says: 'looking again' },
  { what: 'before its transaction', standsAt: { point: 'before processes.hold' }, says: 'refused' },
  { what: 'in a compensation', standsAt: { call: 'undo second' }, says: 'refused' },
])(
  'K-02 P-17 a zombie $what: another worker has continued, and it changes nothing',
  async ({ what, standsAt, says: last }) => {
    const domain = `zombie-${what.replaceAll(' ', '-')}`
    const { hf, processes } = await open(domain)
    const { id } = await hf.start(processes.Undone, {}, { immediate: false })
    const zombie = startWorkerProcess(script, { connectionString, domain, standsAt })
    await zombie.message('it stands', says('standing'), PATIENCE)
    zombie.freeze()
    const heir = await hf.run(WORKER)
    const before = await endOf(id)
    zombie.send({ go: true })
    zombie.thaw()
    await zombie.message(`it is ${last}`, says(last), PATIENCE)
    const after = await bookOf(id)
    expect(after.records).toEqual(before.records)
    expect(after).toMatchObject({ status: 'COMPENSATED', bookings: ['undone'], state: before.state, leased: false })
    // What it had begun when it was frozen was begun again by the next one; nothing was called after its record.
    expect(faultsIn(after, 1)).toEqual([])
    await heir.stop()
    await hf.close()
    await zombie.kill()
  },
  300_000,
)

test('K-02 a zombie about to suspend: another worker has suspended and resumed the process, and it changes nothing', async () => {
  const { hf, processes } = await open('zombie-rest')
  const { id } = await hf.start(processes.Journey, {}, { immediate: false })
  const options = { connectionString, domain: 'zombie-rest', standsAt: { call: 'flaky' } }
  const zombie = startWorkerProcess(script, options)
  await zombie.message('it stands', says('standing'), PATIENCE)
  zombie.freeze()
  const heir = await hf.run(WORKER)
  await waitFor('the heir has rested', async () => (await bookOf(id)).waitingFor === 'approval')
  const resting = await bookOf(id)
  zombie.send({ go: true })
  zombie.thaw()
  await zombie.message('it was refused', says('refused'), PATIENCE)
  expect(await bookOf(id)).toEqual(resting)
  await hf.process(processes.Journey, id).respond('approved', { by: 'me' })
  const end = await endOf(id)
  expect(end).toMatchObject({ status: 'COMPLETED', bookings: ['journey'] })
  expect(faultsIn(end, 1)).toEqual([])
  await heir.stop()
  await hf.close()
  await zombie.kill()
}, 120_000)

test('P-05 a zombie in its own transaction: no worker can take the process over, and it commits once', async () => {
  const domain = 'zombie-commit'
  const { hf, processes } = await open(domain)
  const { id } = await hf.start(processes.Undone, {}, { immediate: false })
  const zombie = startWorkerProcess(script, { connectionString, domain, standsAt: { point: 'before commit' } })
  await zombie.message('it stands', says('standing'), PATIENCE)
  zombie.freeze()
  const frozen = await bookOf(id)
  const heir = await hf.run(WORKER)
  await waitFor('its lease has been over for as long again', async () => {
    const { rows } = await pool.query<{ over: boolean }>(
      `select due_at + interval '600 ms' < holdfast.now() as over from holdfast.process where id = $1`,
      [id],
    )
    return rows[0]?.over
  })
  expect(await bookOf(id)).toEqual(frozen)
  zombie.send({ go: true })
  zombie.thaw()
  const end = await endOf(id)
  expect(end).toMatchObject({ status: 'COMPENSATED', bookings: ['undone'] })
  expect(faultsIn(end, 1)).toEqual([])
  await heir.stop()
  await hf.close()
  await zombie.kill()
}, 120_000)

test('K-23 P-05 a zombie in its own transaction is taken over when the server has ended its session, and writes nothing when it wakes', async () => {
  const domain = 'zombie-taken-over'
  const { hf, processes } = await open(domain)
  const { id } = await hf.start(processes.Undone, {}, { immediate: false })
  const zombie = startWorkerProcess(script, { connectionString, domain, standsAt: { point: 'before commit' } })
  await zombie.message('it stands', says('standing'), PATIENCE)
  zombie.freeze()
  const heir = await hf.run(WORKER)
  // While it is frozen: nobody tells it to go on.
  const before = await endOf(id)
  expect(before).toMatchObject({ status: 'COMPENSATED', bookings: ['undone'] })
  zombie.send({ go: true })
  zombie.thaw()
  await zombie.message('it looks for other work', says('looking again'), PATIENCE)
  const after = await bookOf(id)
  expect(after).toEqual(before)
  expect(faultsIn(after, 1)).toEqual([])
  await heir.stop()
  await hf.close()
  await zombie.kill()
}, 120_000)

test('P-11 a caller that is frozen while it responds: the same response from another caller is recorded once', async () => {
  const domain = 'zombie-respond'
  const { hf, processes } = await open(domain)
  const { id } = await hf.start(processes.Journey, {}, { immediate: false })
  const heir = await hf.run(WORKER)
  await waitFor('it waits', async () => (await bookOf(id)).waitingFor === 'approval')
  const responds = { id, responseId: 'the approval' }
  const standsAt = { point: 'before processes.respond' }
  const zombie = startWorkerProcess(script, { connectionString, domain, standsAt, responds })
  await zombie.message('it stands', says('standing'), PATIENCE)
  zombie.freeze()
  await hf.process(processes.Journey, id).respond('approved', { by: 'me' }, { responseId: 'the approval' })
  const before = await endOf(id)
  zombie.send({ go: true })
  zombie.thaw()
  await zombie.message('it has responded', says('responded'), PATIENCE)
  const after = await bookOf(id)
  expect(after).toEqual(before)
  expect(after).toMatchObject({ status: 'COMPLETED', state: { approvals: 1 } })
  await heir.stop()
  await hf.close()
  await zombie.kill()
}, 120_000)
