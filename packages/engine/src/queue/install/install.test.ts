import { countStatements, testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../kernel/database/database.js'
import { openDatabase } from '../../kernel/database/open.js'
import type { DatabaseOptions } from '../../kernel/database/options.js'
import { installQueue, queueInfo } from './install.js'

const OURS = { source: 'sql', version: '1.11.1' }
const role = `hf_courier_${process.pid}_${Date.now()}`
const server = await open((await testDatabase({ empty: true })).connectionString, {}, afterAll)
await server.transaction((tx) => tx.query(`create role ${role} login password 'courier'`))
afterAll(() => server.transaction((tx) => tx.query(`drop role ${role}`)))

type WhenDone = (close: () => Promise<void>) => void

async function open(connectionString: string, options: DatabaseOptions = {}, whenDone: WhenDone = onTestFinished) {
  const db = await openDatabase({ connectionString, poolSize: 2, ...options })
  whenDone(() => db.close())
  return db
}

/** A database without PGMQ, its administrator, and the same as a role that may do nothing. */
async function freshDatabase(): Promise<{ url: string; admin: Database; courier: () => Promise<Database> }> {
  const { connectionString: url } = await testDatabase({ empty: true })
  const admin = await open(url)
  onTestFinished(async () => {
    const owner = new pg.Client({ connectionString: url })
    await owner.connect()
    await owner.query(`drop owned by ${role}`)
    await owner.end()
  })
  const asCourier = new URL(url)
  asCourier.username = role
  asCourier.password = 'courier'
  return { url, admin, courier: () => open(asCourier.href) }
}

const sql = (db: Database, text: string) => db.transaction((tx) => tx.query(text))

test('Q-01 on a server without the extension PGMQ’s own SQL is installed, and its version is reported', async () => {
  const { admin } = await freshDatabase()
  await expect(queueInfo(admin)).rejects.toMatchObject({
    code: 'HF_QUEUE_UNAVAILABLE',
    message: expect.stringContaining('does not have it yet'),
  })
  expect(await installQueue(admin)).toEqual(OURS)
  expect(await queueInfo(admin)).toEqual(OURS)
  const { rows } = await sql(admin, "select obj_description('pgmq'::regnamespace) as comment")
  expect(rows).toEqual([{ comment: 'PGMQ 1.11.1, installed as plain SQL by Holdfast' }])
})

test('Q-01 installing again is one statement and changes nothing', async () => {
  const { url, admin } = await freshDatabase()
  await installQueue(admin)
  const counter = countStatements()
  const again = await open(url, { faults: counter.faults })
  const before = counter.total()
  const catalog = "select max(xmin::text::bigint) as last from pg_class where relnamespace = 'pgmq'::regnamespace"
  const { rows: untouched } = await sql(admin, catalog)
  expect(await installQueue(again)).toEqual(OURS)
  expect(counter.total() - before).toBe(1)
  expect(counter.counts.get('queue.read facts')).toBe(1)
  expect((await sql(admin, catalog)).rows).toEqual(untouched)
})

test('Q-01 eight installations of one database start at once, in schemas of their own', async () => {
  const { url } = await freshDatabase()
  const pools = await Promise.all(Array.from({ length: 8 }, (_, i) => open(url, { schema: `shop_${i}` })))
  const lines: string[] = []
  const log = (_: object, line: string) => void lines.push(line)
  const logger = { debug: log, info: log, warn: log, error: log }
  const infos = await Promise.all(pools.map((db) => installQueue(db, { logger })))
  expect(infos).toEqual(Array.from({ length: 8 }, () => OURS))
  expect(lines).toEqual(['PGMQ was installed'])
})

test('Q-01 another session that creates the schema at the same moment is waited for', async () => {
  const { url, admin } = await freshDatabase()
  const stranger = new pg.Client({ connectionString: url })
  await stranger.connect()
  onTestFinished(() => stranger.end())
  await stranger.query('begin; create schema pgmq')
  const installing = installQueue(admin)
  await waitFor('our installation waits for theirs', () => isBlocking(stranger))
  await stranger.query('commit')
  expect(await installing).toEqual(OURS)
})

async function isBlocking(client: pg.Client): Promise<boolean> {
  const text = 'select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))'
  return (await client.query(text)).rows.length > 0
}

test('Q-01 a schema `pgmq` that is not PGMQ is refused, and not changed', async () => {
  const { admin } = await freshDatabase()
  await sql(admin, 'create schema pgmq; create table pgmq.mine (id int)')
  const refused = {
    code: 'HF_QUEUE_UNAVAILABLE',
    message: expect.stringMatching(/"pgmq".*lacks create\(text\), drop_queue/),
  }
  await expect(installQueue(admin)).rejects.toMatchObject(refused)
  await expect(queueInfo(admin)).rejects.toMatchObject(refused)
  expect((await sql(admin, 'select * from pgmq.mine')).rows).toEqual([])
})

test('Q-01 a role that may not create schemas is told what an administrator can run, and that is enough', async () => {
  const { admin, courier } = await freshDatabase()
  const db = await courier()
  const remedy = `create schema pgmq authorization "${role}";`
  await expect(installQueue(db)).rejects.toMatchObject({
    code: 'HF_NOT_PERMITTED',
    message: expect.stringContaining(remedy),
  })
  await sql(admin, remedy)
  expect(await installQueue(db)).toEqual(OURS)
  expect((await sql(db, "select pgmq.create('orders')")).rows).toHaveLength(1)
})

test('Q-01 a role without rights uses an installed PGMQ as soon as it has the rights', async () => {
  const { admin, courier } = await freshDatabase()
  await installQueue(admin)
  const db = await courier()
  const error = await installQueue(db).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'HF_NOT_PERMITTED' })
  const [, remedy = ''] = /An administrator can run: (.*)$/.exec(error instanceof Error ? error.message : '') ?? []
  expect(remedy).toContain(`"${role}"`)
  await sql(admin, remedy)
  expect(await installQueue(db)).toEqual(OURS)
  await sql(db, "select pgmq.create('orders')")
  await sql(db, "select pgmq.send('orders', '{}')")
  expect((await sql(db, "select message from pgmq.read('orders', 30, 1)")).rows).toEqual([{ message: {} }])
  await sql(db, "select pgmq.drop_queue('orders')")
})

test('Q-01 an empty schema of another role is not taken over', async () => {
  const { admin, courier } = await freshDatabase()
  await sql(admin, 'create schema pgmq')
  const db = await courier()
  const remedy = `alter schema pgmq owner to "${role}";`
  await expect(installQueue(db)).rejects.toMatchObject({
    code: 'HF_NOT_PERMITTED',
    message: expect.stringContaining(remedy),
  })
  await sql(admin, remedy)
  expect(await installQueue(db)).toEqual(OURS)
})
