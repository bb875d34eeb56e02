import { testDatabase } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { moveClock } from '../clock/clock.js'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { newId } from '../ids/id.js'
import { appendAudit, checkBy, readAudit } from './audit.js'

let db: Database
beforeAll(async () => {
  db = await openDatabase(await testDatabase().then(({ connectionString }) => ({ connectionString })))
})
afterAll(() => db.close())

test('K-12 an audit entry says what changed, when, by whom, and the values before and after', async () => {
  const id = newId()
  const by = { actor: 'ann', reason: 'wrong amount' }
  await appendAudit(db, [
    { model: 'commands', event: 'SENT', subject: { id } },
    {
      model: 'commands',
      event: 'EDITED',
      subject: { id },
      by,
      before: { amount: 1 },
      after: { amount: 2 },
      detail: [1],
    },
  ])
  const trail = await readAudit(db, { id })
  expect(trail).toEqual([
    {
      at: expect.any(Date),
      model: 'commands',
      event: 'SENT',
      subject: id,
      actor: null,
      reason: null,
      before: null,
      after: null,
      detail: null,
    },
    {
      at: expect.any(Date),
      model: 'commands',
      event: 'EDITED',
      subject: id,
      actor: 'ann',
      reason: 'wrong amount',
      before: { amount: 1 },
      after: { amount: 2 },
      detail: [1],
    },
  ])
})

test('K-12 entries keep their order when the clock is set back', async () => {
  const [id, name] = [newId(), 'set back']
  const written = async (event: string) => {
    for (const subject of [{ id }, { name }]) await appendAudit(db, [{ model: 'test', event, subject }])
  }
  await written('FIRST')
  await moveClock(db, -60_000)
  await written('SECOND')
  await moveClock(db, 60_000)
  for (const subject of [{ id }, { name }]) {
    expect((await readAudit(db, subject)).map(({ event }) => event)).toEqual(['FIRST', 'SECOND'])
  }
})

test('K-12 an entry commits or rolls back with the change it describes', async () => {
  const name = 'rolled back'
  const failure = new Error('the change failed')
  const change = db.transaction(async (tx) => {
    await appendAudit(tx, [{ model: 'test', event: 'CHANGED', subject: { name } }])
    throw failure
  })
  await expect(change).rejects.toBe(failure)
  expect(await readAudit(db, { name })).toEqual([])
})

test.each(['update holdfast.audit set actor = null', 'delete from holdfast.audit', 'truncate holdfast.audit'])(
  'K-12 the trail is append-only: %s is refused',
  async (text) => {
    await expect(db.run({ name: 'test.tamper', text })).rejects.toThrow('the audit trail is append-only')
  },
)

test('K-12 an operator who gives no name or no reason is refused', () => {
  expect(() => checkBy('pause', { actor: ' ', reason: 'x' })).toThrow(/needs an actor/)
  expect(() => checkBy('pause', { actor: 'ann', reason: '' })).toThrow(/needs a reason/)
  expect(() => checkBy('pause', undefined)).toThrow(/needs an actor/)
  expect(checkBy('pause', { actor: ' ann ', reason: ' why ' })).toEqual({ actor: 'ann', reason: 'why' })
})

const partitions = async () =>
  db.run<{ name: string }>({
    name: 'test.partitions',
    text: `
      select child.relname as name
      from pg_inherits join pg_class child on child.oid = inhrelid
      where inhparent = 'holdfast.audit'::regclass
      order by 1`,
  })

test('U-10 K-12 any field beside actor and reason is refused, and not ignored', () => {
  const by = { actor: 'ann', reason: 'wrong IBAN', data: { iban: 'DE-1' } }
  expect(() => checkBy('retry', by)).toThrow(
    expect.objectContaining({ code: 'HF_UNKNOWN_OPTION', message: expect.stringContaining('`data`') }),
  )
})

test.each([
  ['actor', { actor: 'a'.repeat(201), reason: 'r' }, 200],
  ['reason', { actor: 'ann', reason: 'r'.repeat(2_001) }, 2_000],
])('U-10 K-12 more than a note is refused: %s', (part, by, most) => {
  expect(() => checkBy('retry', by)).toThrow(
    expect.objectContaining({
      code: 'HF_INVALID_OPTION',
      message: expect.stringContaining(`\`${part}\` must have at most ${most} characters`),
    }),
  )
})

test('K-12 the trail is partitioned by week from the start, ahead of time; a week without a partition loses no entry', async () => {
  const ensure = { name: 'test.ensure', text: 'select holdfast.ensure_audit_partitions(4) as made' }
  expect(await db.run(ensure)).toHaveLength(0)
  expect(await partitions()).toHaveLength(6)
  await appendAudit(db, [{ model: 'test', event: 'NOW', subject: { name: 'partitioned' } }])
  await moveClock(db, 100 * 24 * 3_600_000)
  await appendAudit(db, [{ model: 'test', event: 'LATER', subject: { name: 'partitioned' } }])
  // The week that already has rows in the default partition is left there; the next ones are made.
  expect(await db.run(ensure)).toHaveLength(4)
  await moveClock(db, -100 * 24 * 3_600_000)
  expect((await readAudit(db, { name: 'partitioned' })).map(({ event }) => event)).toEqual(['NOW', 'LATER'])
  const [places] = await db.run({
    name: 'test.places',
    text: `select count(distinct tableoid)::int as n from holdfast.audit where subject_name = 'partitioned'`,
  })
  expect(places).toEqual({ n: 2 })
})
