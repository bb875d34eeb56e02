import { sqlFolder, startPgBouncer, testDatabase, waitFor } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../database/database.js'
import { openDatabase } from '../database/open.js'
import type { DatabaseOptions } from '../database/options.js'
import { migrate } from './migrate.js'

const folder = (files: Record<string, string>) => sqlFolder(files, onTestFinished)
const { connectionString } = await testDatabase({ empty: true })
let schemas = 0

async function open(options: DatabaseOptions = {}): Promise<Database> {
  const db = await openDatabase({ connectionString, schema: `s${++schemas}`, ...options })
  onTestFinished(() => db.close())
  return db
}

const FIRST = {
  'migrations/0001_item.sql': `-- release: 1
create table holdfast.item (id int generated always as identity, amount int not null);
insert into holdfast.item (amount) select g from generate_series(1, 5000) g;
alter table holdfast.item add constraint item_amount_is_positive check (amount > 0) not valid;
`,
}
const ONLINE = {
  ...FIRST,
  'migrations/0002_online.sql': `-- release: 1
-- online
-- Built while everybody writes.
create index concurrently if not exists item_by_amount on holdfast.item (amount);
alter table holdfast.item validate constraint item_amount_is_positive;
`,
}
const insert = { name: 'insert', text: 'insert into holdfast.item (amount) values (1)' }

async function indexIsValid(db: Database): Promise<boolean | undefined> {
  const text = `
    select indisvalid as valid from pg_index
    join pg_class on pg_class.oid = indexrelid
    where relname = 'item_by_amount' and relnamespace::regnamespace::text = $1`
  return (await db.run<{ valid: boolean }>({ name: 'index', text }, [db.schema]))[0]?.valid
}

/** A transaction with a snapshot from before: what a concurrent build waits for. */
async function holdSnapshot(db: Database): Promise<() => Promise<void>> {
  const holder = await db.connect()
  await holder.query('begin isolation level repeatable read')
  await holder.query('select 1')
  return async () => {
    await holder.query('commit')
    await holder.close()
  }
}

async function buildIsWaiting(db: Database): Promise<number> {
  const text = `
    select pid from pg_stat_activity
    where query like 'create index concurrently%' and strpos(query, quote_ident($1::text)) > 0 and wait_event_type = 'Lock'`
  const find = { name: 'find build', text }
  return waitFor('the build waits', async () => (await db.run<{ pid: number }>(find, [db.schema]))[0]?.pid)
}

test('K-09 an online file builds and validates while others write, and blocks no session', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const letGo = await holdSnapshot(db)
  const migrating = migrate(db, { directory: folder(ONLINE) })
  const builder = await buildIsWaiting(db)
  // The build is in its longest phase and will stay there until the snapshot goes; writers work on, and none of them is
  // behind it in a queue.
  for (let written = 0; written < 20; written += 1) await db.run(insert)
  const blocked = {
    name: 'blocked',
    text: 'select pid from pg_stat_activity where $1::int = any (pg_blocking_pids(pid))',
  }
  expect(await db.run(blocked, [builder])).toEqual([])
  expect(await indexIsValid(db)).toBe(false)

  await letGo()
  expect(await migrating).toMatchObject({ applied: ['0002_online'] })
  expect(await indexIsValid(db)).toBe(true)
  const validated = {
    name: 'validated',
    text: "select convalidated from pg_constraint where conrelid = 'holdfast.item'::regclass and contype = 'c'",
  }
  expect(await db.run(validated)).toEqual([{ convalidated: true }])
})

test('K-09 a new installation builds the indexes of online files itself: it waits for no transaction of others', async () => {
  const db = await open()
  const letGo = await holdSnapshot(db)
  expect(await migrate(db, { directory: folder(ONLINE) })).toMatchObject({ applied: ['0001_item', '0002_online'] })
  expect(await indexIsValid(db)).toBe(true)
  await letGo()
})

test('K-09 a build that was killed leaves an invalid index, which the next start builds again', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const letGo = await holdSnapshot(db)
  const failing = migrate(db, { directory: folder(ONLINE), patience: 0 }).catch((error: unknown) => error)
  await db.run({ name: 'kill', text: 'select pg_terminate_backend($1::int, 5000)' }, [await buildIsWaiting(db)])
  expect(await failing).toMatchObject({ code: '57P01' })
  expect(await indexIsValid(db)).toBe(false)
  await letGo()

  expect(await migrate(db, { directory: folder(ONLINE) })).toMatchObject({ applied: ['0002_online'] })
  expect(await indexIsValid(db)).toBe(true)
})

test('K-09 the unfinished build of an instance that died is waited for, not dropped', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const letGo = await holdSnapshot(db)
  const orphan = await db.connect()
  const built = orphan.query(db.sql('create index concurrently if not exists item_by_amount on holdfast.item (amount)'))
  await buildIsWaiting(db)
  const [before] = await db.run({ name: 'oid', text: "select 'holdfast.item_by_amount'::regclass::oid::text as oid" })

  let tell: () => void = () => undefined
  const asked = new Promise<void>((resolve) => {
    tell = resolve
  })
  const faults = (point: string) => (point === 'after find unfinished index' ? tell() : undefined)
  const second = await open({ schema: db.schema, faults })
  const migrated = migrate(second, { directory: folder(ONLINE) })
  await asked
  await letGo()
  await built
  expect(await migrated).toMatchObject({ applied: ['0002_online'] })
  expect(await db.run({ name: 'oid', text: "select 'holdfast.item_by_amount'::regclass::oid::text as oid" })).toEqual([
    before,
  ])
})

test('K-09 other instances wait for the one that builds, without delaying it', async () => {
  const db = await open()
  await migrate(db, { directory: folder(FIRST) })
  const letGo = await holdSnapshot(db)
  const directory = folder(ONLINE)
  const first = migrate(db, { directory })
  await buildIsWaiting(db)
  let heard: () => void = () => undefined
  const waiting = new Promise<void>((resolve) => {
    heard = resolve
  })
  const logger = { debug: () => undefined, info: () => heard(), warn: () => undefined, error: () => undefined }
  const second = migrate(await open({ schema: db.schema }), { directory, logger })
  await waiting
  await letGo()
  const [one, other] = await Promise.all([first, second])
  expect([one.applied, other.applied]).toEqual([['0002_online'], []])
})

test('K-09 statements that lock other sessions out, or cannot run twice, are refused in an online file', async () => {
  const db = await open()
  const files = {
    ...FIRST,
    'migrations/0002_bad.sql': '-- release: 1\n-- online\n\nalter table holdfast.item add note text;',
  }
  await expect(migrate(db, { directory: folder(files) })).rejects.toMatchObject({
    code: 'HF_MIGRATION_FAILED',
    message: expect.stringContaining('0002_bad.sql failed: line 4: an online file holds only'),
  })
})

test('K-09 K-04 it works through PgBouncer in transaction mode, and leaves no setting behind', async (context) => {
  const bouncer = await startPgBouncer(connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  onTestFinished(() => bouncer.stop())
  const db = await open({ connectionString: bouncer.connectionString })
  expect(await migrate(db, { directory: folder(FIRST) })).toMatchObject({ applied: ['0001_item'] })
  expect(await migrate(db, { directory: folder(ONLINE) })).toMatchObject({ applied: ['0002_online'] })
  const settings = {
    name: 'settings',
    text: "select name from pg_settings where source = 'session' and name like '%timeout'",
  }
  const rows = await Promise.all(Array.from({ length: 10 }, () => db.run(settings)))
  expect(rows.flat()).toEqual([])
})
