import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeSchema, testDatabase } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { openDatabase } from '../database/open.js'
import { migrate } from './migrate.js'
import { sqlDirectory } from './sql-directory.js'

async function describeMigrated(connectionString: string, schema: string): Promise<string> {
  const db = await openDatabase({ connectionString, schema })
  await migrate(db)
  const text = await describeSchema(db)
  await db.close()
  return text
}

test('K-09 the committed snapshot is what the migrations make', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const snapshot = join(sqlDirectory(), 'schema.sql')
  expect(existsSync(snapshot), 'sql/schema.sql is missing: run `npm run schema`').toBe(true)
  const described = await describeMigrated(connectionString, 'holdfast')
  expect(described, 'sql/schema.sql is out of date: run `npm run schema`').toBe(await readFile(snapshot, 'utf8'))
})

test('K-09 the snapshot does not depend on the name of the schema', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const usual = await describeMigrated(connectionString, 'holdfast')
  expect(await describeMigrated(connectionString, 'plain_name')).toBe(usual)
  expect(await describeMigrated(connectionString, 'Pay"ments – ünï 1')).toBe(usual)
  expect(usual).toContain('create table holdfast.migration (\n  version integer not null,')
})

test('K-09 no constraint is left unvalidated', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const db = await openDatabase({ connectionString })
  await migrate(db)
  const left = await db.run({
    name: 'test.unvalidated',
    text: "select conname from pg_constraint where not convalidated and connamespace = 'holdfast'::regnamespace",
  })
  await db.close()
  expect(left).toEqual([])
})
