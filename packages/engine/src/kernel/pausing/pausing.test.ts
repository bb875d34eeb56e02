import { testDatabase } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readAudit } from '../audit/audit.js'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { listPauses, type PauseSubject, pauseWork, resumeWork, subjectName } from './pausing.js'

let db: Database
beforeAll(async () => {
  const { connectionString } = await testDatabase()
  db = await openDatabase({ connectionString })
})
afterAll(() => db.close())

const by = { actor: 'ann', reason: 'the bank is down' }
const here = () => true

test('K-18 a pause is listed with actor and reason, and both pause and resume are audited', async () => {
  expect(await pauseWork(db, { domain: 'payments' }, by, here)).toBe(true)
  expect(await pauseWork(db, { domain: 'payments' }, { actor: 'bob', reason: 'me too' }, here)).toBe(false)
  expect(await listPauses(db)).toEqual([{ subject: 'domain:payments', pausedAt: expect.any(Date), ...by }])
  expect(await resumeWork(db, { domain: 'payments' }, { actor: 'bob', reason: 'it is back' })).toBe(true)
  expect(await resumeWork(db, { domain: 'payments' }, by)).toBe(false)
  expect(await listPauses(db)).toEqual([])
  expect(await readAudit(db, { name: 'domain:payments' })).toMatchObject([
    { event: 'PAUSED', actor: 'ann', reason: 'the bank is down' },
    { event: 'RESUMED', actor: 'bob', reason: 'it is back', before: { actor: 'ann' } },
  ])
})

test('K-18 a claim checks all names under which work can be paused', async () => {
  await pauseWork(db, { definition: 'payments/Payment' }, by, here)
  const isPaused = async (...subjects: string[]) => {
    const [row] = await db.run<{ paused: boolean }>(
      { name: 'test.is-paused', text: 'select holdfast.is_paused($1) as paused' },
      [subjects],
    )
    return row?.paused
  }
  expect(await isPaused('domain:payments', 'definition:payments/Payment')).toBe(true)
  expect(await isPaused('domain:payments', 'definition:payments/Refund')).toBe(false)
})

test('K-12 a pause without a reason is refused and changes nothing', async () => {
  await expect(pauseWork(db, { handler: 'Ship' }, { actor: 'ann', reason: '' })).rejects.toMatchObject({
    code: 'HF_INVALID_ACTOR',
  })
  expect((await listPauses(db)).map(({ subject }) => subject)).not.toContain('handler:Ship')
})

test.each<PauseSubject>([{ domain: 'paiments' }, { definition: 'payments/Paiment' }, { handler: 'Shipp' }])(
  'K-18 %j, which was never registered, cannot be paused',
  async (subject) => {
    await expect(pauseWork(db, subject, by)).rejects.toMatchObject({ code: 'HF_UNKNOWN_SUBJECT' })
    const [name = ''] = Object.values(subject)
    expect((await listPauses(db)).map((pause) => pause.subject)).not.toContain(expect.stringContaining(name))
  },
)

test.each([{}, { domain: '' }, { domain: 'a', handler: 'b' }, { queue: 'a' }, { domain: 7 }])(
  'K-18 %j cannot be paused',
  (subject) => {
    expect(() => subjectName('pause', subject as unknown as PauseSubject)).toThrowError(
      expect.objectContaining({ code: 'HF_INVALID_OPTION' }),
    )
  },
)
