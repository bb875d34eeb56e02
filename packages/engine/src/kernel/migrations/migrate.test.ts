import { sqlFolder, testDatabase, waitFor } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import type { DatabaseOptions } from '../database/options.js'
import type { Logger } from '../logger.js'
import { migrate } from './migrate.js'
import { verifySchema } from './verify.js'

const folder = (files: Record<string, string>) => sqlFolder(files, onTestFinished)
const { connectionString } = await testDatabase({ empty: true })
const ODD = 'Pay"ments – ünï 1'
let schemas = 0

async function open(options: DatabaseOptions = {}): Promise<Database> {
  const db = await openDatabase({ connectionString, schema: `s${++schemas}`, ...options })
  onTestFinished(() => db.close())
  return db
}

const ITEM = '-- release: 1\ncreate table holdfast.item (id int primary key, name text);\n'
const TOTAL =
  "-- revision: 1\ncreate or replace function holdfast.total() returns bigint language sql as 'select count(*) from holdfast.item';"
const FIRST = { 'migrations/0001_item.sql': ITEM, 'functions/total.sql': TOTAL }
const total = { name: 'total', text: 'select holdfast.total()::int as total' }

async function tablesOf(db: Database): Promise<string[]> {
  const text =
    "select relname::text as name from pg_class where relnamespace::regnamespace::text = quote_ident($1::text) and relkind = 'r' order by 1"
  return (await db.run<{ name: string }>({ name: 'tables', text }, [db.schema])).map(({ name }) => name)
}

test('K-09 files are applied once, in order, with a record of each', async () => {
  const db = await open()
  const directory = folder({
    ...FIRST,
    'migrations/0002_more.sql': "-- release: 2\ninsert into holdfast.item values (1, 'a'), (2, 'b');",
  })
  expect(await migrate(db, { directory })).toEqual({
    applied: ['0001_item', '0002_more'],
    functions: ['total'],
    release: 2,
  })
  expect(await migrate(db, { directory })).toEqual({ applied: [], functions: [], release: 2 })
  expect(await db.run(total)).toEqual([{ total: 2 }])
  const [record] = await db.run({ name: 'record', text: 'select * from holdfast.migration where version = 2' })
  expect(record).toEqual({
    version: 2,
    name: '0002_more',
    release: 2,
    checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
    applied_at: expect.any(Date),
  })
})

test('K-09 any schema name works', async () => {
  const db = await open({ schema: ODD })
  await migrate(db, { directory: folder(FIRST) })
  expect(await tablesOf(db)).toEqual(['function_file', 'item', 'migration'])
  expect(await db.run(total)).toEqual([{ total: 0 }])
})

test('K-09 our own migrations run in a schema with an unusual name too, and are complete', async () => {
  const db = await open({ schema: `${ODD}'s` })
  await migrate(db)
  await expect(verifySchema(db)).resolves.toMatchObject({ release: expect.any(Number) })
})

test('K-09 eight instances that start at once share the work', async () => {
  const schema = `s${++schemas}`
  const directory = folder({
    ...FIRST,
    'migrations/0002_fill.sql':
      '-- release: 1\ninsert into holdfast.item select g, g::text from generate_series(1, 1000) g;',
    'migrations/0003_index.sql':
      '-- release: 1\n-- online\ncreate index concurrently if not exists item_by_name on holdfast.item (name);',
    'migrations/0004_column.sql': '-- release: 1\nalter table holdfast.item add note text;',
  })
  const instances = await Promise.all(Array.from({ length: 8 }, () => open({ schema, poolSize: 1 })))
  const installs = await Promise.all(instances.map((db) => migrate(db, { directory: folder(FIRST) })))
  expect(installs.flatMap(({ applied }) => applied)).toEqual(['0001_item'])
  expect(installs.flatMap(({ functions }) => functions)).toEqual(['total'])
  const upgrades = await Promise.all(instances.map((db) => migrate(db, { directory })))
  expect(upgrades.flatMap(({ applied }) => applied).sort()).toEqual(['0002_fill', '0003_index', '0004_column'])
  expect(new Set([...installs, ...upgrades].map(({ release }) => release))).toEqual(new Set([1]))
  expect(await instances[0]?.run(total)).toEqual([{ total: 1000 }])
})

test('K-09 a file that fails is rolled back whole and names its line; the rest can go on after the correction', async () => {
  const db = await open()
  const broken =
    '-- release: 1\ncreate table holdfast.half (id int);\n\ninsert into holdfast.half\nvalues (nonsense);\n'
  await migrate(db, { directory: folder(FIRST) })
  const attempt = migrate(db, { directory: folder({ ...FIRST, 'migrations/0002_half.sql': broken }) })
  await expect(attempt).rejects.toMatchObject({
    code: 'HF_MIGRATION_FAILED',
    message: expect.stringMatching(/^0002_half\.sql failed: line 5: .*nonsense/),
    cause: { code: '42703' },
  })
  expect(await tablesOf(db)).toEqual(['function_file', 'item', 'migration'])
  const corrected = { ...FIRST, 'migrations/0002_half.sql': broken.replace('nonsense', '1') }
  expect(await migrate(db, { directory: folder(corrected) })).toMatchObject({ applied: ['0002_half'] })
})

test('K-09 an installation that fails leaves no schema behind', async () => {
  const db = await open()
  const attempt = migrate(db, {
    directory: folder({ ...FIRST, 'migrations/0002_half.sql': '-- release: 1\n\nselect nonsense;' }),
  })
  await expect(attempt).rejects.toMatchObject({
    code: 'HF_MIGRATION_FAILED',
    message: expect.stringMatching(/^0002_half\.sql failed: line 3: .*nonsense/),
  })
  expect(await db.run({ name: 'schema', text: 'select 1 from pg_namespace where nspname = $1' }, [db.schema])).toEqual(
    [],
  )
})

test('K-09 a landed file that was edited is refused', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const edited = { ...FIRST, 'migrations/0001_item.sql': `${ITEM}-- edited\n` }
  await expect(migrate(db, { directory: folder(edited) })).rejects.toMatchObject({ code: 'HF_MIGRATION_CHANGED' })
})

test('K-09 functions go up by revision and are never downgraded by an older instance that restarts', async () => {
  const db = await open()
  const older = folder(FIRST)
  await migrate(db, { directory: older })
  const raised = TOTAL.replace('revision: 1', 'revision: 2').replace('count(*)', '42::bigint')
  const newer = folder({
    ...FIRST,
    'functions/total.sql': raised,
    'migrations/0002_new.sql': '-- release: 2\nselect 1;',
  })
  expect(await migrate(db, { directory: newer })).toEqual({ applied: ['0002_new'], functions: ['total'], release: 2 })
  expect(await migrate(db, { directory: older })).toEqual({ applied: [], functions: [], release: 2 })
  await expect(verifySchema(db, older)).resolves.toEqual({ release: 2 })
  expect(await db.run(total)).toEqual([{ total: null }])
})

test('K-09 an instance that may not migrate says what is missing and changes nothing', async () => {
  const db = await open()
  const directory = folder(FIRST)
  await expect(verifySchema(db, directory)).rejects.toMatchObject({
    code: 'HF_SCHEMA_TOO_OLD',
    message: expect.stringContaining('lacks migration 0001_item, revision 1 of the functions total'),
  })
  expect(await tablesOf(db)).toEqual([])
})

test('K-09 waiting for a table that a long transaction has locked does not block other sessions', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const holder = await db.connect()
  await holder.query(db.sql('begin; select * from holdfast.item'))
  const lines: string[] = []
  const write = (_: object, message: string) => void lines.push(message)
  const logger: Logger = { debug: write, info: write, warn: write, error: write }
  const directory = folder({
    ...FIRST,
    'migrations/0002_alter.sql': '-- release: 1\nalter table holdfast.item add note text;',
  })
  const migrating = migrate(db, { directory, lockTimeout: 50, logger })
  await waitFor('it gave way twice', () => lines.length >= 2)
  // Were the migration queued for its exclusive lock, this read would queue up behind it for as long as the holder likes.
  expect(await db.run(total)).toEqual([{ total: 0 }])
  expect(lines[0]).toContain('a long transaction holds a table that the migration needs')
  await holder.query('commit')
  await holder.close()
  expect(await migrating).toMatchObject({ applied: ['0002_alter'] })
})

test('K-09 it gives up on a table that stays locked', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const holder = await db.connect()
  onTestFinished(() => holder.close())
  await holder.query(db.sql('begin; select * from holdfast.item'))
  const directory = folder({
    ...FIRST,
    'migrations/0002_alter.sql': '-- release: 1\nalter table holdfast.item add note text;',
  })
  await expect(migrate(db, { directory, lockTimeout: 20, patience: 100 })).rejects.toMatchObject({ code: '55P03' })
})

test('K-11 a migration whose connection was lost is finished by the next attempt', async () => {
  const operator = await open()
  let killed = false
  const db = await open({
    faults: async (point) => {
      if (killed || point !== 'before note migration') return
      killed = true
      const text = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'doomed'"
      await operator.run({ name: 'kill', text })
    },
    applicationName: 'doomed',
  })
  expect(await migrate(db, { directory: folder(FIRST) })).toEqual({
    applied: ['0001_item'],
    functions: ['total'],
    release: 1,
  })
  expect(killed).toBe(true)
})
