import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { keyedId } from '../kernel/ids/keyed-id.js'
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
  const { rows } = await client.query<{ id: string }>(`select holdfast.send(${call}) as id`, params)
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
    `'shop', 'Book', '{"amount": 1}', jsonb_build_object('id', $1::text, 'correlationId', $2::text,
     'replyTo', 'shop__replies', 'retry', '{"maxAttempts": 7}'::jsonb, 'delay', '1d', 'batch', $3::text)`,
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
  await expect(sendCommand(`'shop', 'Book', '{"amount": 2}', $1`, [{ id }])).rejects.toMatchObject({
    code: '23505',
    message: expect.stringContaining('HF_DUPLICATE_COMMAND'),
  })
  expect(await sendCommand(`'shop', 'Book', '{"amount": 2}', $1`, [{ id, ifExists: 'ignore' }])).toBe(id)
  expect(await bus.hf.command(Book, id).result()).toBe(2)
})

test.each([
  [
    'a domain that nobody defined',
    `'nowhere', 'Book', '{}'`,
    '22023',
    'HF_NOT_FOUND: there is no command nowhere/Book',
  ],
  ['a type that no worker has had', `'shop', 'Bok', '{}'`, '22023', 'HF_NOT_FOUND: there is no command shop/Bok'],
  ['an option that is none', `'shop', 'Book', '{}', '{"dellay": "5s"}'`, '22023', 'send: there is no option `dellay`'],
  ['a delay that is none', `'shop', 'Book', '{}', '{"delay": "soon"}'`, '22023', '`delay` must be a duration'],
  [
    'a moment without a zone',
    `'shop', 'Book', '{}', '{"startAt": "2031-01-31T16:00:00"}'`,
    '22023',
    '`startAt` must be a moment',
  ],
  ['a moment that is none', `'shop', 'Book', '{}', '{"startAt": "2031-13-01"}'`, '22023', '`startAt` must be a moment'],
  ['both times', `'shop', 'Book', '{}', '{"delay": 1, "startAt": "2031-01-01"}'`, '22023', 'goes without `delay`'],
  [
    'a reply queue that is not there',
    `'shop', 'Book', '{}', '{"replyTo": "gone"}'`,
    '42P01',
    'reply queue gone does not exist',
  ],
  [
    'a batch that is not there',
    `'shop', 'Book', '{}', jsonb_build_object('batch', gen_random_uuid())`,
    '22023',
    'takes no more commands',
  ],
  ['no attempts', `'shop', 'Book', '{}', '{"retry": {"maxAttempts": 0}}'`, '22023', '`maxAttempts`'],
  ['an ifExists that is none', `'shop', 'Book', '{}', '{"ifExists": "replace"}'`, '22023', '`ifExists`'],
  ['no type', `'shop', null, '{}'`, '22023', 'HF_NOT_FOUND'],
])('%s is refused, and nothing is written', async (_, call, code, said) => {
  const before = (await bus.hf.commands.list({ domain: 'shop', limit: 1_000 })).items
  await expect(sendCommand(call)).rejects.toMatchObject({ code, message: expect.stringContaining(said) })
  expect((await bus.hf.commands.list({ domain: 'shop', limit: 1_000 })).items).toHaveLength(before.length)
})

test('U-02 a key makes it idempotent: the same key is the same command', async () => {
  const send = (amount: number) => sendCommand(`'shop', 'Book', $1, '{"key": "PAY-7"}'`, [{ amount }])
  const id = await send(4)
  expect(id).toBe(keyedId('command', 'shop', 'Book', 'PAY-7'))
  expect(await send(5)).toBe(id)
  expect(await bus.hf.command(Book, id).result()).toBe(8)
  for (const key of ['', 'äöü "quoted" \\ \n \u2028 \u0007', '💶']) {
    const [row] = await bus.sql<{ id: string }>('select holdfast.keyed_id($1, $2, $3, $4) as id', [
      'command',
      'a',
      'b',
      key,
    ])
    expect(row?.id).toBe(keyedId('command', 'a', 'b', key))
  }
})

test('K-15 it is part of its caller’s transaction', async () => {
  await client.query('begin')
  const gone = await sendCommand(`'shop', 'Book', '{"amount": 1}'`)
  await client.query('rollback')
  await expect(bus.hf.command(Book, gone).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('K-13 data that the schema refuses goes to troubleshooting with the path', async () => {
  const id = await sendCommand(`'shop', 'Book', '{"amount": "many"}'`)
  const found = await waitFor('it is in troubleshooting', async () =>
    (await bus.hf.trouble.list({ model: 'commands', domain: 'shop' })).items.find((record) => record.id === id),
  )
  expect(found).toMatchObject({ code: 'INVALID_DATA', message: expect.stringContaining('$.amount') })
})
