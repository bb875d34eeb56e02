import { testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineCommand } from './commands/index.js'
import { holdfast } from './holdfast.js'

let connectionString: string
beforeAll(async () => {
  ;({ connectionString } = await testDatabase({ empty: true }))
})

test('K-09 opening migrates an empty database, and opening again changes nothing', async () => {
  const first = await holdfast({ connectionString })
  expect(await first.pauses()).toEqual([])
  await first.close()
  const second = await holdfast({ connectionString, migrate: false })
  await second.close()
})

test('K-13 an unknown option is refused with the nearest known name', async () => {
  // @ts-expect-error the compiler refuses it too
  await expect(holdfast({ conectionString: 'x' })).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
    message: expect.stringContaining('did you mean `connectionString`?'),
  })
})

test.each([
  [{ concurrency: -1 }, 'concurrency'],
  [{ concurrency: 0 }, 'concurrency'],
  [{ concurrency: 1.5 }, 'concurrency'],
  [{ lease: '1ms' as const }, 'lease'],
  [{ poll: 0 }, 'poll'],
  [{ name: '' }, 'name'],
])('K-13 a worker with %j is refused and nothing is started', async (options, option) => {
  const hf = await holdfast({ connectionString })
  await expect(hf.run(options)).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
    message: expect.stringContaining(option),
  })
  await hf.close()
})

test('K-11 a database that does not exist gives one clear error without the password', async () => {
  const down = 'postgres://app:secret@127.0.0.1:1/shop'
  const error = await holdfast({ connectionString: down }).catch((problem) => problem)
  expect(error).toMatchObject({ code: 'HF_DATABASE_UNREACHABLE', status: 503 })
  expect(error.message).toContain('127.0.0.1:1')
  expect(`${error.message} ${error.stack}`).not.toContain('secret')
})

test('K-09 a missing schema is refused when migrating was not asked for', async () => {
  await expect(holdfast({ connectionString, schema: 'other', migrate: false })).rejects.toMatchObject({
    code: 'HF_SCHEMA_TOO_OLD',
  })
})

test('K-11 a pool of the caller stays open when Holdfast closes', async () => {
  const pool = new pg.Pool({ connectionString })
  afterAll(() => pool.end())
  const hf = await holdfast({ pool })
  await hf.close()
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

test('K-12 a worker does the housekeeping of the installation, and closing drains it', async () => {
  const hf = await holdfast({ connectionString })
  const worker = await hf.run({ name: 'night shift', poll: '50ms' })
  expect(worker).toMatchObject({ name: 'night shift', isRunning: true })
  const client = new pg.Client({ connectionString })
  await client.connect()
  await waitFor('the partitions are made', async () => {
    const { rows } = await client.query(`select last_run_at is not null as ran from holdfast.chore`)
    return rows[0].ran === true
  })
  await client.end()
  await hf.close()
  expect(worker.isRunning).toBe(false)
})

test('K-18 operators pause, resume and read the audit trail', async () => {
  const hf = await holdfast({ connectionString })
  hf.handle(defineCommand('payments', 'Pay'), () => undefined)
  await hf.pause({ domain: 'payments' }, { actor: 'ann', reason: 'cut-off' })
  expect(await hf.pauses()).toMatchObject([{ subject: 'domain:payments', actor: 'ann', reason: 'cut-off' }])
  await hf.resume({ domain: 'payments' }, { actor: 'ann', reason: 'next day' })
  const trail = await hf.auditTrail({ name: 'domain:payments' })
  expect(trail.map(({ event }) => event)).toEqual(['PAUSED', 'RESUMED'])
  await hf.close()
})

test('K-14 a schema that was renamed under an open installation gives one clear code, and opening it again too', async () => {
  const { connectionString: own } = await testDatabase()
  const hf = await holdfast({ connectionString: own })
  const admin = new pg.Client({ connectionString: own })
  await admin.connect()
  await admin.query('alter schema holdfast rename to archived')
  const Pay = defineCommand('payments', 'Pay')
  const damaged = { code: 'HF_SCHEMA_DAMAGED', message: expect.stringContaining('"holdfast"') }
  await expect(hf.pauses()).rejects.toMatchObject(damaged)
  await expect(hf.send(Pay, {})).rejects.toMatchObject(damaged)
  await expect(hf.commands.list()).rejects.toMatchObject(damaged)
  await expect(hf.pause({ domain: 'x' }, { actor: 'a', reason: 'r' })).rejects.toMatchObject({
    code: expect.stringMatching(/^HF_/),
  })
  await hf.close()
  // Functions name the schema that they were made for.
  const renamed = await holdfast({ connectionString: own, schema: 'archived' }).catch((error) => error)
  if (renamed instanceof Error) expect(renamed).toMatchObject({ code: expect.stringMatching(/^HF_/) })
  else {
    await expect(renamed.send(Pay, {})).rejects.toMatchObject({ code: expect.stringMatching(/^HF_/) })
    await renamed.close()
  }
  await admin.end()
})
