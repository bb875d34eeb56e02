import { testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineCommand, defineProcess, holdfast } from '../../index.js'

const role = `hf_runtime_${process.pid}_${Date.now()}`
const { connectionString } = await testDatabase()
const owner = new pg.Client({ connectionString })
const asRuntime = new URL(connectionString)
asRuntime.username = role
asRuntime.password = 'runtime'

beforeAll(async () => {
  await owner.connect()
  await owner.query(`create role ${role} login password 'runtime'`)
  await owner.query('select holdfast.grant_runtime($1)', [role])
})
afterAll(async () => {
  await owner.query(`drop owned by ${role}`)
  await owner.query(`drop role ${role}`)
  await owner.end()
})

async function runtimeClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: asRuntime.href })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const partitions = async () => {
  const { rows } = await owner.query<{ name: string }>(
    "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'holdfast.audit'::regclass",
  )
  return rows.map(({ name }) => name)
}

test('K-27 a role with the runtime rights sends, handles, starts and operates', async () => {
  const hf = await holdfast({ connectionString: asRuntime.href, migrate: false })
  onTestFinished(() => hf.close())
  const Pay = defineCommand('payments', 'Pay')
  const Refund = defineProcess('payments', 'Refund', {
    state: z.object({}),
    execute: (ctx) => ctx.step('refund', () => 'refunded'),
  })
  hf.handle(Pay, async () => 'paid')
  hf.register(Refund)
  const worker = await hf.run()
  onTestFinished(async () => void (await worker.stop()))
  const { id } = await hf.send(Pay, { cents: 1 })
  expect(await hf.command(Pay, id).result()).toBe('paid')
  const started = await hf.start(Refund, {}, { immediate: false })
  expect(await hf.process(Refund, started.id).result()).toBe('refunded')
  await hf.pause({ domain: 'payments' }, { actor: 'ann', reason: 'test' })
  await hf.resume({ domain: 'payments' }, { actor: 'ann', reason: 'test' })
  await waitFor('the chores have run', async () => {
    const { rows } = await owner.query('select from holdfast.chore where last_run_at is null or last_error is not null')
    return rows.length === 0
  })
})

test.each([
  "update holdfast.audit set event = 'x'",
  'delete from holdfast.audit',
  'truncate holdfast.audit',
  'update holdfast.audit_default set model = model',
  'delete from holdfast.audit_default',
  'drop table holdfast.audit_default',
  "update holdfast.clock set shift = interval '1 year'",
  'delete from holdfast.clock',
  "insert into holdfast.migration values (99, 'x', 1, 'x')",
  'alter table holdfast.audit disable trigger all',
  'drop trigger audit_rows_stay on holdfast.audit',
  'create table holdfast.mine (id int)',
  'create or replace function holdfast.now() returns timestamptz language sql as $$ select now() $$',
])('K-27 the runtime role may not: %s', async (text) => {
  const client = await runtimeClient()
  await expect(client.query(text)).rejects.toMatchObject({ code: '42501' })
})

test('K-27 not even the owner changes audit rows, on whatever partition', async () => {
  await owner.query(
    `insert into holdfast.audit (at, model, event, subject_name)
     values (now(), 'test', 'E', 's'), ('2001-01-01', 'test', 'E', 's'), (now() + interval '10 days', 'test', 'E', 's')`,
  )
  await owner.query('select holdfast.ensure_audit_partitions(9)')
  const all = await partitions()
  expect(all.length).toBeGreaterThan(9)
  const { rows: filled } = await owner.query<{ name: string }>(
    'select distinct tableoid::regclass::text as name from holdfast.audit',
  )
  expect(filled.length).toBeGreaterThan(1)
  for (const { name } of filled) {
    for (const text of [`update ${name} set event = 'x'`, `delete from ${name}`]) {
      await expect(owner.query(text), text).rejects.toMatchObject({ code: '23001' })
    }
  }
  for (const name of all) await expect(owner.query(`truncate ${name}`), name).rejects.toMatchObject({ code: '23001' })
})
