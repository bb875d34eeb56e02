import { randomUUID } from 'node:crypto'
import { countStatements, openTestBus, type TestBus } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const book = (domain: string) => defineCommand(domain, 'Book', { data: z.object({ amount: z.number() }) })
const messages = (domain: string) =>
  bus.sql<{ msg_id: string; vt: Date; message: Record<string, unknown> }>(
    `select msg_id, vt, message from pgmq."q_${domain}__commands" order by msg_id`,
  )
const commandCount = async (domain: string) => {
  const [row] = await bus.sql<{ count: number }>('select count(*)::int from holdfast.command where domain = $1', [
    domain,
  ])
  return row?.count
}
const inTransaction = async <T>(work: (client: pg.Client) => Promise<T>, end: 'commit' | 'rollback'): Promise<T> => {
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  try {
    await client.query('begin')
    const answer = await work(client)
    await client.query(end)
    return answer
  } finally {
    await client.end()
  }
}

test('C-01 send writes the command, its SENT audit and its message, in the form of the specification', async () => {
  await bus.hf.queues.create('payments__replies')
  const correlationId = randomUUID()
  const { id } = await bus.hf.send(book('payments'), { amount: 7 }, { correlationId, replyTo: 'payments__replies' })
  expect((await messages('payments')).map(({ message }) => message)).toEqual([
    {
      domain: 'payments',
      command_type: 'Book',
      command_id: id,
      correlation_id: correlationId,
      data: { amount: 7 },
      reply_to: 'payments__replies',
    },
  ])
  expect(await bus.hf.command(book('payments'), id).get()).toMatchObject({
    status: 'PENDING',
    attempts: 0,
    correlationId,
    replyTo: 'payments__replies',
    data: { amount: 7 },
  })
  expect(await bus.hf.command(book('payments'), id).history()).toMatchObject([
    { event: 'SENT', detail: { domain: 'payments', type: 'Book' } },
  ])
})

test('C-01 a send is one statement, and fifty at the same moment are a few', async () => {
  const counter = countStatements()
  const counted = await openTestBus({ faults: counter.faults })
  const Book = book('counted')
  await counted.hf.send(Book, { amount: 0 })
  const before = counter.total()
  await counted.hf.send(Book, { amount: 1 })
  expect(counter.total() - before).toBe(1)
  await Promise.all(Array.from({ length: 50 }, (_, amount) => counted.hf.send(Book, { amount })))
  expect(counter.total() - before).toBeLessThan(10)
  await counted.close()
})

test('C-02 delay and runAt hide the message until then, and a past time means now', async () => {
  const Book = book('later')
  const now = async () => (await bus.sql<{ now: Date }>('select holdfast.now() as now'))[0]?.now.getTime() ?? 0
  const before = await now()
  await bus.hf.send(Book, { amount: 1 }, { delay: '10m' })
  await bus.hf.send(Book, { amount: 2 }, { startAt: new Date('2040-01-01T00:00:00Z') })
  await bus.hf.send(Book, { amount: 3 }, { startAt: '2040-01-01T02:00:00+01:00' })
  await bus.hf.send(Book, { amount: 4 }, { startAt: new Date('2001-01-01T00:00:00Z') })
  const after = await now()
  const [delayed, at, text, past] = (await messages('later')).map(({ vt }) => vt.getTime())
  expect(delayed).toBeGreaterThanOrEqual(before + 600_000)
  expect(delayed).toBeLessThanOrEqual(after + 600_000)
  expect(at).toBe(Date.parse('2040-01-01T00:00:00Z'))
  expect(text).toBe(Date.parse('2040-01-01T01:00:00Z'))
  // Not 2001: workers look from where they last were, and would find it only with their next full look.
  expect(past).toBeGreaterThanOrEqual(before)
})

test('C-02 a delayed command runs at its time and not before', async () => {
  const Book = book('clocked')
  const seen: number[] = []
  const clocked = await openTestBus()
  await clocked.work(Book, ({ amount }) => void seen.push(amount))
  const { id: later } = await clocked.hf.send(Book, { amount: 2 }, { delay: '1h' })
  await (await clocked.hf.send(Book, { amount: 1 })).result()
  expect(seen).toEqual([1])
  await clocked.moveClock(3_600_000)
  await clocked.hf.command(Book, later).result()
  expect(seen).toEqual([1, 2])
  await clocked.close()
})

test('C-03 sendMany sends thousands and returns their ids in order', async () => {
  const Book = book('bulk')
  const commands = Array.from({ length: 2_500 }, (_, amount) => ({ data: { amount } }))
  const ids = (await bus.hf.sendMany(Book, commands)).map(({ id }) => id)
  expect(new Set(ids).size).toBe(2_500)
  expect(await messages('bulk')).toHaveLength(2_500)
  expect((await bus.hf.command(Book, ids[1_234] ?? '').get()).data).toEqual({ amount: 1_234 })
})

test('C-03 one refused command refuses the whole call and is named', async () => {
  const Book = book('all-or-none')
  const { id: taken } = await bus.hf.send(Book, { amount: 0 })
  const commands = Array.from({ length: 1_500 }, (_, amount) => ({ data: { amount } }))
  await expect(bus.hf.sendMany(Book, [...commands, { data: { amount: 1 }, id: taken }])).rejects.toMatchObject({
    code: 'HF_DUPLICATE_COMMAND',
    details: { id: taken, domain: 'all-or-none', type: 'Book' },
  })
  const bad = [{ data: { amount: 1 } }, { data: { amount: 'x' as unknown as number } }]
  await expect(bus.hf.sendMany(Book, bad)).rejects.toMatchObject({
    code: 'HF_INVALID_DATA',
    message: expect.stringMatching(/commands\[1\].*\$\.amount/),
  })
  expect(await commandCount('all-or-none')).toBe(1)
  expect(await messages('all-or-none')).toHaveLength(1)
})

test('C-03 the same id twice in one call is refused', async () => {
  const commandId = randomUUID()
  const twice = [1, 2].map((amount) => ({ data: { amount }, id: commandId }))
  await expect(bus.hf.sendMany(book('twice'), twice)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('C-03 inside the caller’s transaction sendMany sends all or none, and the transaction stays usable', async () => {
  const Book = book('savepoint')
  const { id: taken } = await bus.hf.send(Book, { amount: 0 })
  await inTransaction(async (transaction) => {
    const commands = [{ data: { amount: 1 } }, { data: { amount: 2 }, id: taken }]
    await expect(bus.hf.sendMany(Book, commands, { transaction })).rejects.toMatchObject({
      code: 'HF_DUPLICATE_COMMAND',
    })
    await bus.hf.sendMany(Book, [{ data: { amount: 3 } }, { data: { amount: 4 } }], { transaction })
  }, 'commit')
  expect((await messages('savepoint')).map(({ message }) => message.data)).toEqual([
    { amount: 0 },
    { amount: 3 },
    { amount: 4 },
  ])
})

test('C-04 a duplicate id is refused and enqueues nothing, or is ignored where that is asked for', async () => {
  const Book = book('once')
  const { id: commandId } = await bus.hf.send(Book, { amount: 1 })
  await expect(bus.hf.send(Book, { amount: 2 }, { id: commandId })).rejects.toMatchObject({
    code: 'HF_DUPLICATE_COMMAND',
    status: 409,
    message: expect.stringContaining(commandId),
  })
  expect((await bus.hf.send(Book, { amount: 2 }, { id: commandId, ifExists: 'ignore' })).id).toBe(commandId)
  expect(await messages('once')).toHaveLength(1)
  expect(await bus.events(commandId)).toEqual(['SENT'])
})

test('C-04 of fifty senders of one id at once, one sends', async () => {
  const Book = book('racing')
  const commandId = randomUUID()
  const answers = await Promise.allSettled(
    Array.from({ length: 50 }, (_, amount) => bus.hf.send(Book, { amount }, { id: commandId })),
  )
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await messages('racing')).toHaveLength(1)
})

test('C-04 the same id is another command in another domain', async () => {
  const { id: commandId } = await bus.hf.send(book('here'), { amount: 1 })
  expect((await bus.hf.send(book('there'), { amount: 1 }, { id: commandId })).id).toBe(commandId)
})

test('C-04 a duplicate inside the caller’s transaction leaves the transaction usable', async () => {
  const Book = book('inside')
  const { id: commandId } = await bus.hf.send(Book, { amount: 1 })
  await inTransaction(async (transaction) => {
    await expect(bus.hf.send(Book, { amount: 2 }, { id: commandId, transaction })).rejects.toMatchObject({
      code: 'HF_DUPLICATE_COMMAND',
    })
    await bus.hf.send(Book, { amount: 2 }, { id: commandId, transaction, ifExists: 'ignore' })
    await bus.hf.send(Book, { amount: 3 }, { transaction })
  }, 'commit')
  expect((await messages('inside')).map(({ message }) => message.data)).toEqual([{ amount: 1 }, { amount: 3 }])
})

test('K-15 a send inside a transaction is sent by its commit and by nothing else', async () => {
  const Book = book('outbox')
  const gone = await inTransaction((transaction) => bus.hf.send(Book, { amount: 1 }, { transaction }), 'rollback')
  expect(await messages('outbox')).toEqual([])
  expect(await bus.events(gone.id)).toEqual([])
  const sent = await inTransaction((transaction) => bus.hf.send(Book, { amount: 1 }, { transaction }), 'commit')
  expect((await messages('outbox')).map(({ message }) => message.command_id)).toEqual([sent.id])
})

test('K-15 a pool given as the transaction is refused', async () => {
  const pool = new pg.Pool({ connectionString: bus.connectionString })
  await expect(bus.hf.send(book('pooled'), { amount: 1 }, { transaction: pool })).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
    message: expect.stringContaining('pool'),
  })
  await pool.end()
})

test('C-04 a send whose id an open transaction has used waits for that transaction, and delays no other send', async () => {
  const Book = book('held')
  const commandId = randomUUID()
  await bus.hf.send(Book, { amount: 0 })
  let second: Promise<unknown> = Promise.resolve()
  await inTransaction(async (transaction) => {
    await bus.hf.send(Book, { amount: 1 }, { id: commandId, transaction })
    second = bus.hf.send(Book, { amount: 2 }, { id: commandId }).catch((error) => error)
    const others = Array.from({ length: 20 }, (_, amount) => bus.hf.send(Book, { amount }))
    expect(await Promise.all(others)).toHaveLength(20)
  }, 'commit')
  expect(await second).toMatchObject({ code: 'HF_DUPLICATE_COMMAND' })
  expect(await messages('held')).toHaveLength(22)
})
