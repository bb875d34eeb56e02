import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { type CommandDefinition, defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const count = async (domain: string) =>
  (
    await bus.sql<{ count: number }>('select count(*)::int as count from holdfast.command where domain = $1', [domain])
  )[0]?.count

test('U-02 the same key of a type is the same command: it is sent once, and not changed', async () => {
  const Pay = defineCommand('keyed', 'Pay')
  const first = await bus.hf.send(Pay, 1, { key: 'PAY-1' })
  const again = await bus.hf.send(Pay, 2, { key: 'PAY-1', delay: '1h' })
  expect([first.created, again.created]).toEqual([true, false])
  expect(again.id).toBe(first.id)
  expect(await again.get()).toMatchObject({ id: first.id, key: 'PAY-1', data: 1, status: 'PENDING' })
  expect((await first.history()).map(({ event }) => event)).toEqual(['SENT'])
  const others = [defineCommand('keyed', 'Refund'), defineCommand('keyed_too', 'Pay')]
  for (const other of others) expect((await bus.hf.send(other, 1, { key: 'PAY-1' })).created).toBe(true)
  expect((await bus.hf.send(Pay, 1, { key: 'PAY-2' })).created).toBe(true)
  expect(await count('keyed')).toBe(3)
})

test('U-04 a command is found by its key, and one that ended is not sent again', async () => {
  const Pay = defineCommand('keyed_ended', 'Pay')
  await bus.work(Pay, (data) => data)
  const { id } = await bus.hf.send(Pay, 'once', { key: 'PAY-1' })
  const handle = bus.hf.command(Pay, 'PAY-1')
  expect(handle.id).toBe(id)
  expect(await handle.result()).toBe('once')
  const again = await bus.hf.send(Pay, 'twice', { key: 'PAY-1' })
  expect(again.created).toBe(false)
  expect(await again.result()).toBe('once')
  await expect(bus.hf.command(Pay, 'PAY-2').get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('U-02 of many senders of one key at the same moment, one sends', async () => {
  const Pay = defineCommand('keyed_race', 'Pay')
  const sent = await Promise.all(Array.from({ length: 50 }, (_, n) => bus.hf.send(Pay, n, { key: 'PAY-1' })))
  expect(sent.filter(({ created }) => created)).toHaveLength(1)
  expect(new Set(sent.map(({ id }) => id)).size).toBe(1)
  expect(await count('keyed_race')).toBe(1)
})

test('U-02 sendMany with keys sends those that do not exist yet, and says which', async () => {
  const Pay = defineCommand('keyed_many', 'Pay')
  const { id } = await bus.hf.send(Pay, 0, { key: 'B' })
  const sent = await bus.hf.sendMany(Pay, [{ data: 1, key: 'A' }, { data: 2, key: 'B' }, { data: 3 }])
  expect(sent.map(({ created }) => created)).toEqual([true, false, true])
  expect(sent[1]?.id).toBe(id)
  expect((await bus.hf.command(Pay, 'B').get()).data).toBe(0)
  await expect(
    bus.hf.sendMany(Pay, [
      { data: 1, key: 'C' },
      { data: 2, key: 'C' },
    ]),
  ).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  expect(await count('keyed_many')).toBe(3)
})

test('U-02 K-15 inside a transaction a key is taken by its commit, and free after a rollback', async () => {
  const Pay = defineCommand('keyed_inside', 'Pay')
  await bus.hf.send(Pay, 0)
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  onTestFinished(() => client.end())
  const send = async (n: number) => (await bus.hf.send(Pay, n, { key: 'PAY-1', transaction: client })).created
  await client.query('begin')
  expect([await send(1), await send(2)]).toEqual([true, false])
  await client.query('rollback')
  await client.query('begin')
  expect(await send(3)).toBe(true)
  await client.query('commit')
  expect((await bus.hf.command(Pay, 'PAY-1').get()).data).toBe(3)
})

test('U-02 a key that SQL sends is the same key', async () => {
  const Pay = defineCommand('keyed_sql', 'Pay')
  await bus.work(Pay, (data) => data)
  await waitFor('SQL knows the command', async () => {
    const [row] = await bus.sql<{ known: boolean }>(
      "select exists (select from holdfast.worker_definition where model = 'commands' and name = 'keyed_sql/Pay') as known",
    )
    return row?.known
  })
  const [row] = await bus.sql<{ id: string }>(`select holdfast.send('keyed_sql', 'Pay', '7', '{"key": "PAY-1"}') as id`)
  const again = await bus.hf.send(Pay, 8, { key: 'PAY-1' })
  expect([again.id, again.created]).toEqual([row?.id, false])
  expect(await again.get()).toMatchObject({ key: 'PAY-1', data: 7 })
})

test('U-02 a key excludes an id, and a duplicate key can be refused like a duplicate id', async () => {
  const Pay = defineCommand('keyed_refused', 'Pay')
  const both = bus.hf.send(Pay, 1, { key: 'PAY-1', id: randomUUID() })
  await expect(both).rejects.toMatchObject({ code: 'HF_INVALID_OPTION', message: expect.stringContaining('`id`') })
  for (const key of ['', randomUUID(), 7 as never, 'x'.repeat(513)]) {
    await expect(bus.hf.send(Pay, 1, { key })).rejects.toMatchObject({ code: 'HF_INVALID_KEY' })
  }
  await bus.hf.send(Pay, 1, { key: 'PAY-1' })
  await expect(bus.hf.send(Pay, 1, { key: 'PAY-1', ifExists: 'refuse' })).rejects.toMatchObject({
    code: 'HF_DUPLICATE_COMMAND',
    details: { domain: 'keyed_refused', type: 'Pay' },
  })
  expect(await count('keyed_refused')).toBe(1)
})

test('U-12 the type of a definition has its names, its version and its types, and nothing else', () => {
  type Phantom = 'accepts' | 'handles' | 'returns'
  expectTypeOf<keyof CommandDefinition>().toEqualTypeOf<'kind' | 'domain' | 'type' | 'name' | 'version' | Phantom>()
  expect(defineCommand('keyed', 'Pay', { version: 2 })).toMatchObject({
    domain: 'keyed',
    type: 'Pay',
    name: 'keyed/Pay',
    version: 2,
  })
})
