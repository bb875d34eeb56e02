import { testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../kernel/database/open.js'
import { createQueueClient } from './client.js'
import { installQueue } from './install/install.js'

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await installQueue(db)
const queues = createQueueClient(db)
const pool = new pg.Pool({ connectionString, max: 3 })
afterAll(async () => {
  await pool.end()
  await db.close()
})

let count = 0
function newName(): string {
  count += 1
  return `queue_${count}`
}

const HOUR = 3_600_000
const invalid = (message: string) => ({ code: 'HF_INVALID_OPTION', message: expect.stringContaining(message) })

describe('Q-03 sending and reading', () => {
  test('a send creates the queue and returns the message’s id; a read returns the message', async () => {
    const name = newName()
    expect(await queues.send(name, { order: 7, note: `it's "ü" 😀` })).toBe('1')
    const [message, ...others] = await queues.read<{ order: number }>(name, { visibilityTimeout: '1h', limit: 5 })
    expect(others).toEqual([])
    expect(message).toEqual({
      messageId: '1',
      readCount: 1,
      enqueuedAt: expect.any(Date),
      visibleAt: expect.any(Date),
      message: { order: 7, note: `it's "ü" 😀` },
      headers: null,
    })
    expect((message?.visibleAt.getTime() ?? 0) - (message?.enqueuedAt.getTime() ?? 0)).toBeGreaterThanOrEqual(HOUR)
    expect(await queues.read(name), 'hidden').toEqual([])
  })

  test.each([[null], [0], ['text'], [false], [[1, [2]]], [{}]])('%j is a message like any other', async (value) => {
    const name = newName()
    await queues.send(name, value)
    expect(await queues.read(name)).toMatchObject([{ message: value }])
  })

  test('a Date and a bigint arrive as the texts that every client understands', async () => {
    const name = newName()
    await queues.send(name, { at: new Date(0), amount: 12n })
    expect((await queues.pop(name))?.message).toEqual({ at: '1970-01-01T00:00:00.000Z', amount: '12' })
  })

  test('headers, a delay and a moment', async () => {
    const name = newName()
    await queues.send(name, 1, { headers: { trace: 'abc' } })
    await queues.send(name, 2, { delay: '1h' })
    await queues.send(name, 3, { delay: new Date(Date.now() + HOUR) })
    await queues.send(name, 4, { delay: new Date(-8_640_000_000_000_000) })
    await queues.send(name, 5, { delay: new Date(8_640_000_000_000_000) })
    const read = await queues.read(name, { limit: 10 })
    expect(read.map(({ message, headers }) => [message, headers])).toEqual([
      [1, { trace: 'abc' }],
      [4, null],
    ])
    expect(await queues.metrics(name)).toMatchObject({ length: 5, visible: 0, total: 5 })
  })

  test('a delay of milliseconds is kept', async () => {
    const name = newName()
    await queues.send(name, 1, { delay: 1_500 })
    const { rows } = await pool.query(
      `select extract(epoch from vt - enqueued_at) between 1.5 and 20 as later from pgmq.q_${name}`,
    )
    expect(rows).toEqual([{ later: true }])
  })

  test('a batch keeps its order, each message with its own headers', async () => {
    const name = newName()
    const messages = Array.from({ length: 1_000 }, (_, n) => ({ n }))
    const headers = messages.map(({ n }) => (n % 2 === 0 ? null : { odd: n }))
    const ids = await queues.sendBatch(name, messages, { headers })
    expect(ids).toEqual(messages.map(({ n }) => String(n + 1)))
    const read = await queues.read(name, { limit: 1_000 })
    expect(read.map(({ message }) => message)).toEqual(messages)
    expect(read.map((message) => message.headers)).toEqual(headers)
  })

  test('a batch may be delayed', async () => {
    const name = newName()
    await queues.sendBatch(name, [1, 2], { delay: '1h' })
    expect(await queues.metrics(name)).toMatchObject({ length: 2, visible: 0 })
  })

  test('readWithPoll waits for a message, and gives up', async () => {
    const name = newName()
    await queues.create(name)
    expect(await queues.readWithPoll(name, { wait: '1s', interval: 20 })).toEqual([])
    const waiting = queues.readWithPoll(name, { wait: '20s', interval: 20, limit: 2 })
    await waitFor('it polls', async () => {
      const { rows } = await pool.query(
        "select from pg_stat_activity where query like '%pgmq.read_with_poll(%' and wait_event = 'PgSleep'",
      )
      return rows.length > 0
    })
    await queues.sendBatch(name, ['a', 'b'])
    expect((await waiting).map(({ message }) => message)).toEqual(['a', 'b'])
  })

  test('pop reads and deletes a message', async () => {
    const name = newName()
    await queues.sendBatch(name, ['a', 'b'])
    expect(await queues.pop(name)).toMatchObject({ message: 'a', readCount: 0 })
    expect(await queues.pop(name)).toMatchObject({ message: 'b' })
    expect(await queues.pop(name)).toBeUndefined()
  })

  test('setVisibilityTimeout hides and shows a message', async () => {
    const name = newName()
    const id = await queues.send(name, 'a')
    expect(await queues.setVisibilityTimeout(name, id, '1h')).toMatchObject({ messageId: id, readCount: 0 })
    expect(await queues.read(name)).toEqual([])
    await queues.setVisibilityTimeout(name, id, 0)
    expect(await queues.read(name)).toMatchObject([{ messageId: id, readCount: 1 }])
    expect(await queues.setVisibilityTimeout(name, '99', '1h')).toBeUndefined()
  })
})

describe('Q-03 removing', () => {
  test.each(['delete', 'archive'] as const)('%s takes one or many ids, and returns those that existed', async (how) => {
    const name = newName()
    await queues.sendBatch(name, ['a', 'b', 'c'])
    expect(await queues[how](name, '1')).toBe(true)
    expect(await queues[how](name, '1')).toBe(false)
    expect(await queues[how](name, ['3', '2', '1'])).toEqual(['2', '3'])
    expect(await queues[how](name, [])).toEqual([])
    const { rows } = await pool.query(`select count(*)::int as kept from pgmq.a_${name}`)
    expect(rows).toEqual([{ kept: how === 'archive' ? 3 : 0 }])
  })

  test('purge empties the queue and says how many there were', async () => {
    const name = newName()
    await queues.sendBatch(name, ['a', 'b'])
    expect(await queues.purge(name)).toBe(2)
    expect(await queues.metrics(name)).toEqual({
      length: 0,
      visible: 0,
      total: 2,
      newestAgeSeconds: null,
      oldestAgeSeconds: null,
      measuredAt: expect.any(Date),
    })
  })
})

describe('Q-03 queues', () => {
  test('create, exists, list and drop', async () => {
    const name = newName()
    expect(await queues.exists(name)).toBe(false)
    await queues.create(name)
    await queues.create(name)
    expect(await queues.exists(name)).toBe(true)
    expect((await queues.list()).filter((queue) => queue.name === name)).toEqual([
      { name, queue: name, partitioned: false, unlogged: false, createdAt: expect.any(Date) },
    ])
    expect(await queues.drop(name)).toBe(true)
    expect(await queues.drop(name)).toBe(false)
    expect(await queues.exists(name)).toBe(false)
  })

  test('a queue that another client dropped is created again by the next send', async () => {
    const name = newName()
    await queues.send(name, 'lost')
    await pool.query('select pgmq.drop_queue($1)', [name])
    await queues.send(name, 'kept')
    expect(await queues.read(name, { limit: 5 })).toMatchObject([{ message: 'kept' }])
  })

  test('a drop waits for transactions that use the queue, and loses none of them', async () => {
    const name = newName()
    await queues.send(name, 'a')
    const reader = await pool.connect()
    onTestFinished(() => reader.release())
    await reader.query('begin')
    await reader.query('select * from pgmq.read($1, 30, 1)', [name])
    const dropping = queues.drop(name)
    await waitFor('the drop waits for the reader', async () => {
      const { rows } = await reader.query(
        'select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))',
      )
      return rows.length > 0
    })
    const sending = queues.send(name, 'b')
    await reader.query('select pgmq.delete($1, 1::bigint)', [name])
    await reader.query('commit')
    expect(await dropping).toBe(true)
    await sending
    expect(await queues.read(name)).toMatchObject([{ message: 'b' }])
  })

  test.each([
    ['read', (name: string) => queues.read(name)],
    ['readWithPoll', (name: string) => queues.readWithPoll(name)],
    ['pop', (name: string) => queues.pop(name)],
    ['delete', (name: string) => queues.delete(name, '1')],
    ['archive', (name: string) => queues.archive(name, ['1'])],
    ['setVisibilityTimeout', (name: string) => queues.setVisibilityTimeout(name, '1', 0)],
    ['purge', (name: string) => queues.purge(name)],
    ['metrics', (name: string) => queues.metrics(name)],
  ])('%s of a queue that is not there says so', async (_, call) => {
    await expect(call('nowhere')).rejects.toMatchObject({
      code: 'HF_QUEUE_NOT_FOUND',
      message: 'there is no queue `nowhere`',
    })
  })
})

describe('Q-03 inside a caller’s transaction', () => {
  async function begin() {
    const tx = await pool.connect()
    await tx.query('begin')
    onTestFinished(() => tx.release())
    return tx
  }

  test('messages come with the commit and go with the rollback', async () => {
    const name = newName()
    await queues.create(name)
    const tx = await begin()
    await queues.send(name, 'a', { transaction: tx, headers: { h: 1 } })
    await queues.sendBatch(name, ['b', 'c'], { transaction: tx })
    expect(await queues.read(name, { limit: 5, visibilityTimeout: 0 }), 'seen by nobody before the commit').toEqual([])
    await tx.query('commit')
    expect((await queues.read(name, { limit: 5 })).map(({ message }) => message)).toEqual(['a', 'b', 'c'])
    await tx.query('begin')
    await queues.send(name, 'd', { transaction: tx })
    await tx.query('rollback')
    expect(await queues.metrics(name)).toMatchObject({ length: 3 })
  })

  test('a queue is made outside of it: the transaction only inserts', async () => {
    const name = newName()
    const tx = await begin()
    await queues.send(name, 'a', { transaction: tx })
    expect(await queues.exists(name), 'there before the commit').toBe(true)
    const { rows } = await tx.query(`
      select distinct mode from pg_locks
      join pg_class on pg_class.oid = relation
      where pid = pg_backend_pid() and relname = 'q_${name}'`)
    expect(rows).toEqual([{ mode: 'RowExclusiveLock' }])
    await queues.send(name, 'b')
    await tx.query('rollback')
    expect((await queues.read(name, { limit: 5 })).map(({ message }) => message)).toEqual(['b'])
  })

  test('a queue that was dropped since is reported, and exists at the next attempt', async () => {
    const name = newName()
    await queues.create(name)
    await pool.query('select pgmq.drop_queue($1)', [name])
    const tx = await begin()
    await expect(queues.send(name, 'a', { transaction: tx })).rejects.toMatchObject({ code: 'HF_QUEUE_NOT_FOUND' })
    await tx.query('rollback; begin')
    await queues.send(name, 'a', { transaction: tx })
    await tx.query('commit')
    expect(await queues.pop(name)).toMatchObject({ message: 'a' })
  })

  test('a pool is refused as a transaction', async () => {
    await expect(queues.send(newName(), 'a', { transaction: pool })).rejects.toMatchObject(invalid('is a pool'))
  })
})

describe('Q-03 bad input is refused with one clear error', () => {
  const unused = 'never_made'
  const loop: unknown[] = []
  loop.push(loop)

  test.each([
    [
      'a text that PostgreSQL cannot hold',
      { a: ['x', 'a\u0000b'] },
      'HF_NOT_ENCODABLE',
      'message.a[1] cannot be stored',
    ],
    ['half a surrogate pair', { '\ud800': 1 }, 'HF_NOT_ENCODABLE', 'half of a surrogate pair'],
    ['what JSON cannot say', { a: Number.NaN }, 'HF_NOT_ENCODABLE', 'message.a cannot be stored'],
    ['a function', () => 1, 'HF_NOT_ENCODABLE', 'message cannot be stored'],
    ['a value in itself', loop, 'HF_NOT_ENCODABLE', 'message[0]'],
    ['more than a megabyte', 'x'.repeat(1_048_577), 'HF_TOO_LARGE', 'over the limit of 1048576'],
  ])('%s', async (_, message, code, text) => {
    const refused = { code, message: expect.stringContaining(text) }
    await expect(queues.send(unused, message)).rejects.toMatchObject(refused)
    const inBatch = { code, message: expect.stringContaining(text.replace('message', 'messages[1]')) }
    await expect(queues.sendBatch(unused, ['fine', message])).rejects.toMatchObject(inBatch)
    expect(await queues.exists(unused)).toBe(false)
  })

  test('the limit can be set', async () => {
    const small = createQueueClient(db, { maxPayloadBytes: 10 })
    await expect(small.send(unused, '123456789')).rejects.toMatchObject({ code: 'HF_TOO_LARGE' })
    expect(() => createQueueClient(db, { maxPayloadBytes: 0 })).toThrow(
      expect.objectContaining(invalid('maxPayloadBytes')),
    )
  })

  /** What a caller without types might give. */
  const untyped = (value: unknown): never => value as never
  const noDate = new Date(Number.NaN)
  const unstorable = { headers: { a: '\u0000' } }

  test.each<[what: string, call: () => Promise<unknown>, refused: object]>([
    ['an empty batch', () => queues.sendBatch(unused, []), invalid('an array of messages, not an empty one')],
    ['a batch that is no array', () => queues.sendBatch(unused, untyped('abc')), invalid("not 'abc'")],
    [
      'too few headers',
      () => queues.sendBatch(unused, [1, 2], { headers: [{}] }),
      invalid('an array of 2, one entry per'),
    ],
    [
      'headers that are no object',
      () => queues.send(unused, 1, untyped({ headers: ['a'] })),
      invalid('`headers` must be an object'),
    ],
    ['headers that cannot be stored', () => queues.send(unused, 1, unstorable), { code: 'HF_NOT_ENCODABLE' }],
    ['a delay that is none', () => queues.send(unused, 1, untyped({ delay: 'soon' })), { code: 'HF_INVALID_DURATION' }],
    ['a delay that is no date', () => queues.send(unused, 1, { delay: noDate }), invalid('`delay`')],
    ['an unknown option', () => queues.send(unused, 1, untyped({ dealy: 1 })), { code: 'HF_UNKNOWN_OPTION' }],
    ['a transaction that is none', () => queues.send(unused, 1, untyped({ transaction: 1 })), invalid('`transaction`')],
    ['a limit of none', () => queues.read(unused, { limit: 0 }), invalid('`limit`')],
    [
      'a timeout beyond PGMQ’s',
      () => queues.read(unused, { visibilityTimeout: '30000d' }),
      invalid('`visibilityTimeout`'),
    ],
    [
      'a wait beyond a statement’s',
      () => queues.readWithPoll(unused, { wait: '1h' }),
      invalid('must be from 1 s to 20 s'),
    ],
    ['an id that is none', () => queues.delete(unused, 'first'), invalid("such as '42', not 'first'")],
    ['an id beyond all ids', () => queues.archive(unused, ['1', '9223372036854775808']), invalid('`messageId`')],
    ['a name that PGMQ cannot hold', () => queues.send('Orders', 1), { code: 'HF_INVALID_QUEUE_NAME' }],
    ['a name that is too long', () => queues.create('x'.repeat(48)), { code: 'HF_INVALID_QUEUE_NAME' }],
  ])('%s', async (_, call, refused) => {
    await expect(call()).rejects.toMatchObject(refused)
    expect(await queues.exists(unused)).toBe(false)
  })
})

describe('Q-03 two installations in one database never affect each other', () => {
  test('the same name is another queue in another schema', async () => {
    const name = newName()
    const schemas = ['holdfast', 'pay', 'Pay', `it's "odd"`, 'größe 日本']
    const clients = await Promise.all(
      schemas.map(async (schema) => {
        const own = await openDatabase({ connectionString, schema, poolSize: 1 })
        onTestFinished(() => own.close())
        return { schema, client: createQueueClient(own) }
      }),
    )
    for (const { schema, client } of clients) await client.send(name, schema)
    for (const { schema, client } of clients) {
      expect(await client.read(name, { limit: 9 })).toMatchObject([{ messageId: '1', message: schema }])
      const listed = (await client.list()).filter((queue) => queue.name.includes(name))
      expect(listed).toMatchObject([{ name, queue: client.queueName(name) }])
    }
    const [, other] = clients
    await other?.client.drop(name)
    expect(await queues.exists(name)).toBe(true)
  })
})

test('Q-01 without PGMQ the client says what is missing', async () => {
  const empty = await testDatabase({ empty: true })
  const bare = await openDatabase({ connectionString: empty.connectionString })
  onTestFinished(() => bare.close())
  const none = createQueueClient(bare)
  await expect(none.send('orders', 1)).rejects.toMatchObject({ code: 'HF_QUEUE_UNAVAILABLE' })
  await expect(none.read('orders')).rejects.toMatchObject({ code: 'HF_QUEUE_UNAVAILABLE' })
})
