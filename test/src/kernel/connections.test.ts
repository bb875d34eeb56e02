import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { defineCommand, holdfast } from 'holdfast'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'

const { connectionString } = await testDatabase()
const observer = new pg.Pool({ connectionString, max: 1 })

test('K-23 work keeps its lease while all connections of the user’s pool are taken', async () => {
  const pool = new pg.Pool({ connectionString, max: 2 })
  onTestFinished(() => pool.end())
  const hf = await holdfast({ pool })
  onTestFinished(() => hf.close())
  const Slow = defineCommand('connections', 'Slow')
  let calls = 0
  let finish: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    finish = resolve
  })
  hf.handle(Slow, async () => {
    calls += 1
    await end
    return 'done'
  })
  const { id } = await hf.send(Slow, {})
  await hf.run({ lease: '2s', poll: '50ms', concurrency: 2 })
  await waitFor('it has begun', () => calls === 1)
  // Whoever else uses the pool leaves nothing.
  const taken = await Promise.all([pool.connect(), pool.connect()])
  const { rows: first } = await observer.query('select max(vt) as lease from pgmq.q_connections__commands')
  await waitFor('its lease was extended several times over', async () => {
    const { rows } = await observer.query(
      "select vt > $1::timestamptz + interval '4 s' as later from pgmq.q_connections__commands",
      [first[0].lease],
    )
    return rows[0]?.later === true
  })
  expect(calls).toBe(1)
  for (const client of taken) client.release()
  finish()
  expect(await hf.command(Slow, id).result()).toBe('done')
  expect(calls).toBe(1)
})

test('K-23 as many long transactions as the pool has connections starve no heartbeat, and nothing runs twice', async () => {
  const hf = await holdfast({ connectionString, poolSize: 3 })
  onTestFinished(() => hf.close())
  const Long = defineCommand('transactions', 'Long')
  const Plain = defineCommand('transactions', 'Plain')
  const calls = new Map<string, number>()
  let finish: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    finish = resolve
  })
  const called = (id: string) => calls.set(id, (calls.get(id) ?? 0) + 1)
  hf.handle(Long, async (_, ctx) => {
    called(ctx.commandId)
    await ctx.transaction(() => end)
  })
  hf.handle(Plain, async (_, ctx) => {
    called(ctx.commandId)
    await end
  })
  const long = await hf.sendMany(
    Long,
    Array.from({ length: 5 }, () => ({ data: {} })),
  )
  const sent = [...long.map(({ id }) => hf.command(Long, id)), await hf.send(Plain, {})]
  await hf.run({ lease: '2s', poll: '50ms', concurrency: 10 })
  await waitFor('all have begun', () => calls.size === 6)
  const { rows: first } = await observer.query(
    "select max(vt) as lease from pgmq.q_transactions__commands where message ->> 'command_type' = 'Plain'",
  )
  await waitFor('the lease of the plain one was extended several times over', async () => {
    const { rows } = await observer.query(
      `select vt > $1::timestamptz + interval '4 s' as later from pgmq.q_transactions__commands
       where message ->> 'command_type' = 'Plain'`,
      [first[0].lease],
    )
    return rows[0]?.later === true
  })
  finish()
  await waitFor('all have ended', async () => {
    const found = await Promise.all(sent.map((command) => command.get()))
    return found.every((command) => command?.status === 'COMPLETED')
  })
  expect([...calls.values()]).toEqual(Array.from({ length: 6 }, () => 1))
})
