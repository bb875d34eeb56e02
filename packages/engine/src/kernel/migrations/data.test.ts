import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sqlFolder, testDatabase } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { migrate } from './migrate.js'
import { sqlDirectory } from './sql-directory.js'

/** Migrations that change rows, each on a schema as it was before it. */
async function openAt(
  version: number,
): Promise<{ readonly db: Database; migrateTo(version: number): Promise<unknown> }> {
  const { connectionString } = await testDatabase({ empty: true })
  const db = await openDatabase({ connectionString })
  onTestFinished(() => db.close())
  const folder = join(sqlDirectory(), 'migrations')
  const names = readdirSync(folder)
  const migrateTo = (last: number) => {
    const chosen = names.filter((name) => Number(name.slice(0, 4)) <= last)
    const files = chosen.map((name) => [`migrations/${name}`, readFileSync(join(folder, name), 'utf8')])
    return migrate(db, { directory: sqlFolder(Object.fromEntries(files), onTestFinished) })
  }
  await migrateTo(version)
  return { db, migrateTo }
}

test('K-09 0023: what a deadline does is stored in lower case, also in settings that are there, and upper case is refused', async () => {
  const { db, migrateTo } = await openAt(22)
  const insert = {
    name: 'insert',
    text: 'insert into holdfast.process_setting (type, deadline_action, updated_at) values ($1, $2, now())',
  }
  const actions = ['TSQ', 'COMPENSATE', 'FAIL', null]
  for (const action of actions) await db.run(insert, [`payments/${action}`, action])
  await expect(db.run(insert, ['payments/lower', 'tsq'])).rejects.toMatchObject({ code: '23514' })
  expect(await migrateTo(23)).toMatchObject({ applied: ['0023_choices_in_lower_case'] })
  const stored = await db.run({
    name: 'stored',
    text: 'select type, deadline_action as action from holdfast.process_setting order by type',
  })
  expect(stored).toEqual([
    { type: 'payments/COMPENSATE', action: 'compensate' },
    { type: 'payments/FAIL', action: 'fail' },
    { type: 'payments/TSQ', action: 'tsq' },
    { type: 'payments/null', action: null },
  ])
  await expect(db.run(insert, ['payments/upper', 'TSQ'])).rejects.toMatchObject({ code: '23514' })
  await db.run(insert, ['payments/lower', 'tsq'])
})
