import { sqlFolder, testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import { migrate } from './migrate.js'

const folder = (files: Record<string, string>) => sqlFolder(files, onTestFinished)
const { connectionString } = await testDatabase({ empty: true })
const admin = new pg.Client({ connectionString })
await admin.connect()
const role = `hf_clerk_${process.pid}_${Date.now()}`
await admin.query(`create role ${role} login password 'clerk'`)
const { pathname } = new URL(connectionString)
const database = pathname.slice(1)

afterAll(async () => {
  await admin.query(`drop owned by ${role}`)
  await admin.query(`drop role ${role}`)
  await admin.end()
})

async function openAsClerk(schema: string): Promise<Database> {
  const url = new URL(connectionString)
  url.username = role
  url.password = 'clerk'
  const db = await openDatabase({ connectionString: url.href, schema })
  onTestFinished(() => db.close())
  return db
}

const directory = () => folder({ 'migrations/0001_item.sql': '-- release: 1\ncreate table holdfast.item (id int);' })

test('K-09 a role that may not create schemas is told which statement an administrator can run', async () => {
  const db = await openAsClerk('Clerk"s')
  const remedy = `create schema "Clerk""s" authorization "${role}";`
  await expect(migrate(db, { directory: directory() })).rejects.toMatchObject({
    code: 'HF_NOT_PERMITTED',
    message: expect.stringMatching(new RegExp(`"Clerk""s".*"${database}".*"${role}".*${remedy}`)),
  })
  const { rows } = await admin.query(`select 1 from pg_namespace where nspname = 'Clerk"s'`)
  expect(rows).toEqual([])

  await admin.query(remedy)
  expect(await migrate(db, { directory: directory() })).toMatchObject({ applied: ['0001_item'] })
})

test('K-09 a schema made beforehand, where the role may only create tables, is enough', async () => {
  await admin.query('create schema prepared')
  const db = await openAsClerk('prepared')
  const remedy = `grant usage, create on schema "prepared" to "${role}";`
  await expect(migrate(db, { directory: directory() })).rejects.toMatchObject({
    code: 'HF_NOT_PERMITTED',
    message: expect.stringContaining(remedy),
  })
  await admin.query(remedy)
  expect(await migrate(db, { directory: directory() })).toMatchObject({ applied: ['0001_item'] })
})
