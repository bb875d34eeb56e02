import { countStatements, testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../kernel/database/database.js'
import { openDatabase } from '../kernel/database/open.js'
import type { DatabaseOptions } from '../kernel/database/options.js'
import { createQueueClient } from './client.js'
import { ensureCommandQueue } from './command-queue.js'
import { installQueue } from './install/install.js'

const { connectionString } = await testDatabase({ empty: true })
const admin = new pg.Client({ connectionString })
await admin.connect()
const role = `hf_clerk_${process.pid}_${Date.now()}`
await admin.query(`create role ${role} login password 'clerk'`)
const first = await openDatabase({ connectionString })
await installQueue(first)
afterAll(async () => {
  await first.close()
  await admin.query(`drop owned by ${role}`)
  await admin.query(`drop role ${role}`)
  await admin.end()
})

async function open(options: DatabaseOptions = {}): Promise<Database> {
  const db = await openDatabase({ connectionString, poolSize: 2, ...options })
  onTestFinished(() => db.close())
  return db
}

async function indexOf(queue: string): Promise<unknown[]> {
  const { rows } = await admin.query(
    `select indisvalid as valid, pg_get_indexdef(indexrelid) like '%((message ->> ''command_type''::text)), vt)' as right
     from pg_index join pg_class on pg_class.oid = indexrelid
     where relname = $1`,
    [`q_${queue}_hf_type_idx`],
  )
  return rows
}

const GOOD = [{ valid: true, right: true }]

test('Q-02 a new queue has the index of claims by type from the start, and is asked for once', async () => {
  const { faults, counts } = countStatements()
  const db = await open({ faults })
  await ensureCommandQueue(db, 'fresh__commands')
  expect(await indexOf('fresh__commands')).toEqual(GOOD)
  const asked = counts.get('queue.read command queue')
  await ensureCommandQueue(db, 'fresh__commands')
  expect(counts.get('queue.read command queue')).toBe(asked)
})

test('Q-02 the longest name that PGMQ takes', async () => {
  const queue = `${'x'.repeat(37)}__commands`
  await ensureCommandQueue(await open(), queue)
  expect(queue).toHaveLength(47)
  expect(await indexOf(queue)).toEqual(GOOD)
})

test('Q-02 eight workers start at once on a queue that is not there', async () => {
  const workers = await Promise.all(Array.from({ length: 8 }, () => open()))
  await Promise.all(workers.map((db) => ensureCommandQueue(db, 'rush__commands')))
  expect(await indexOf('rush__commands')).toEqual(GOOD)
})

test('Q-02 eight workers start at once on a queue that a foreign client has made', async () => {
  await admin.query("select pgmq.create('theirs__commands')")
  const workers = await Promise.all(Array.from({ length: 8 }, () => open()))
  await Promise.all(workers.map((db) => ensureCommandQueue(db, 'theirs__commands')))
  expect(await indexOf('theirs__commands')).toEqual(GOOD)
})

test('Q-02 the index of a queue in use is built while senders go on', async () => {
  await admin.query("select pgmq.create('busy__commands')")
  const db = await open()
  const sender = new pg.Client({ connectionString })
  await sender.connect()
  onTestFinished(() => sender.end())
  await sender.query("begin; select pgmq.send('busy__commands', '{}')")
  const ensuring = ensureCommandQueue(db, 'busy__commands')
  await waitFor('the build waits for the open transaction', async () => (await indexOf('busy__commands')).length > 0)
  const [sent] = (await admin.query("select pgmq.send('busy__commands', '{}') as id")).rows
  expect(sent, 'nobody waits for the build').toMatchObject({ id: expect.any(String) })
  await sender.query('commit')
  await ensuring
  expect(await indexOf('busy__commands')).toEqual(GOOD)
})

test('Q-02 an index that an interrupted build left behind is built again', async () => {
  await admin.query("select pgmq.create('torn__commands')")
  await admin.query(`
    create index q_torn__commands_hf_type_idx on pgmq.q_torn__commands ((message ->> 'command_type'), vt)`)
  await admin.query(`
    update pg_index set indisvalid = false where indexrelid = 'pgmq.q_torn__commands_hf_type_idx'::regclass`)
  await ensureCommandQueue(await open(), 'torn__commands')
  expect(await indexOf('torn__commands')).toEqual(GOOD)
})

test('Q-02 a sender creates a missing queue with its index, but builds no index on a queue in use', async () => {
  const db = await open()
  await ensureCommandQueue(db, 'sender__commands', { buildIndex: false })
  expect(await indexOf('sender__commands')).toEqual(GOOD)
  await admin.query("select pgmq.create('older__commands')")
  await ensureCommandQueue(db, 'older__commands', { buildIndex: false })
  expect(await indexOf('older__commands')).toEqual([])
  await ensureCommandQueue(db, 'older__commands')
  expect(await indexOf('older__commands')).toEqual(GOOD)
})

test('Q-02 a queue that was dropped is made again with its index', async () => {
  const db = await open()
  await ensureCommandQueue(db, 'again__commands')
  await createQueueClient(db).drop('again__commands')
  await ensureCommandQueue(db, 'again__commands')
  expect(await indexOf('again__commands')).toEqual(GOOD)
})

test('Q-02 a queue of another role is refused with the statement that its owner can run', async () => {
  await admin.query("select pgmq.create('foreign__commands')")
  await admin.query(`grant usage on schema pgmq to ${role}; grant select on pgmq.meta to ${role}`)
  const url = new URL(connectionString)
  url.username = role
  url.password = 'clerk'
  const db = await open({ connectionString: url.href })
  const error = await ensureCommandQueue(db, 'foreign__commands').catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'HF_NOT_PERMITTED' })
  const [, remedy = ''] = /Its owner can run: (.*)$/.exec(error instanceof Error ? error.message : '') ?? []
  await admin.query(remedy)
  await ensureCommandQueue(db, 'foreign__commands')
  expect(await indexOf('foreign__commands')).toEqual(GOOD)
})

test('Q-02 a role that may not make queues is told so', async () => {
  await admin.query(`grant usage on schema pgmq to ${role}; grant select on pgmq.meta to ${role}`)
  const url = new URL(connectionString)
  url.username = role
  url.password = 'clerk'
  const db = await open({ connectionString: url.href })
  await expect(ensureCommandQueue(db, 'none__commands')).rejects.toMatchObject({
    code: 'HF_NOT_PERMITTED',
    message: expect.stringContaining('`create on schema pgmq`'),
  })
})
