import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './define.js'

let bus: TestBus
let client: pg.Client
const Book = defineCommand('shop', 'Book', { data: z.object({ amount: z.number() }) })
beforeAll(async () => {
  bus = await openTestBus()
  client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await bus.work(Book, ({ amount }) => amount * 2)
})
afterAll(async () => {
  await client.end()
  await bus.close()
})

const sendCommand = async (call: string, params: unknown[] = []): Promise<string> => {
  const { rows } = await client.query<{ id: string }>(`select holdfast.send_command(${call}) as id`, params)
  return rows[0]?.id ?? ''
}

test('C-01 one statement of any client sends a command, which is checked and run like ours', async () => {
  const id = await sendCommand(`'shop', 'Book', '{"amount": 21}'`)
  expect(await bus.hf.command(Book, id).result()).toBe(42)
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'COMPLETED'])
})

test('C-02 it takes all that send takes', async () => {
  await bus.hf.queues.create('shop__replies')
  const batchId = await bus.hf.batches.open('shop')
  const [commandId, correlationId] = [randomUUID(), randomUUID()]
  const id = await sendCommand(
    `domain => 'shop', type => 'Book', data => '{"amount": 1}', command_id => $1, correlation_id => $2,
     reply_to => 'shop__replies', max_attempts => 7, delay => interval '1 day', batch_id => $3`,
    [commandId, correlationId, batchId],
  )
  expect(id).toBe(commandId)
  const command = await bus.hf.command(Book, id).get()
  expect(command).toMatchObject({ correlationId, replyTo: 'shop__replies', maxAttempts: 7, batchId, status: 'PENDING' })
  const day = (command.dueAt?.getTime() ?? 0) - command.createdAt.getTime()
  expect(day).toBe(86_400_000)
  expect((await bus.hf.batches.get(batchId)).total).toBe(1)
})

test('C-04 a duplicate is refused with our code, or ignored', async () => {
  const id = await sendCommand(`'shop', 'Book', '{"amount": 1}'`)
  await expect(sendCommand(`'shop', 'Book', '{"amount": 2}', $1`, [id])).rejects.toMatchObject({
    code: '23505',
    message: expect.stringContaining('HF_DUPLICATE_COMMAND'),
  })
  expect(await sendCommand(`'shop', 'Book', '{"amount": 2}', $1, if_exists => 'ignore'`, [id])).toBe(id)
  expect(await bus.hf.command(Book, id).result()).toBe(2)
})

test.each([
  ['a domain that nobody defined', `'nowhere', 'Book', '{}'`, '22023', 'unknown domain nowhere'],
  [
    'a reply queue that is not there',
    `'shop', 'Book', '{}', reply_to => 'gone'`,
    '42P01',
    'reply queue gone does not exist',
  ],
  [
    'a batch that is not there',
    `'shop', 'Book', '{}', batch_id => gen_random_uuid()`,
    '22023',
    'takes no more commands',
  ],
  ['no attempts', `'shop', 'Book', '{}', max_attempts => 0`, '23514', 'max_attempts'],
  ['an if_exists that is none', `'shop', 'Book', '{}', if_exists => 'replace'`, '22023', 'if_exists'],
  ['no type', `'shop', null, '{}'`, '22023', 'type'],
])('%s is refused, and nothing is written', async (_, call, code, said) => {
  const before = await bus.hf.commands.list({ domain: 'shop', limit: 1_000 })
  await expect(sendCommand(call)).rejects.toMatchObject({ code, message: expect.stringContaining(said) })
  expect(await bus.hf.commands.list({ domain: 'shop', limit: 1_000 })).toHaveLength(before.length)
})

test('K-15 it is part of the transaction of whoever calls it', async () => {
  await client.query('begin')
  const gone = await sendCommand(`'shop', 'Book', '{"amount": 1}'`)
  await client.query('rollback')
  await expect(bus.hf.command(Book, gone).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('K-13 data that the schema refuses goes to troubleshooting with the path', async () => {
  const id = await sendCommand(`'shop', 'Book', '{"amount": "many"}'`)
  const found = await waitFor('it is in troubleshooting', async () =>
    (await bus.hf.troubleshooting.list({ domain: 'shop' })).find(({ commandId }) => commandId === id),
  )
  expect(found).toMatchObject({ data: { amount: 'many' }, error: { code: 'INVALID_DATA' } })
  expect(found.error.message).toContain('$.amount')
})
