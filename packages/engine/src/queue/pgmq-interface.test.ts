import { testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { openDatabase } from '../kernel/database/open.js'
import { createQueueClient } from './client.js'
import { ensureCommandQueue } from './command-queue.js'
import { installQueue } from './install/install.js'

// Every function of PGMQ's interface, called with plain SQL as a service in another language would, on queues of ours.
// `:q` stands for the queue.

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await installQueue(db)
const client = createQueueClient(db)
const foreign = new pg.Client({ connectionString })
await foreign.connect()
afterAll(async () => {
  await foreign.end()
  await db.close()
})

let count = 0
async function newQueue(): Promise<string> {
  count += 1
  const queue = `work_${count}`
  await ensureCommandQueue(db, queue)
  return queue
}

async function plainSql(text: string, queue: string): Promise<Record<string, unknown>[]> {
  const { rows } = await foreign.query(text.replaceAll(':q', `'${queue}'`))
  return rows
}

const later = "now() + interval '1 hour'"
const two = `array['{"n":1}','{"n":2}']::jsonb[]`
const twoHeaders = `array['{"h":1}','{"h":2}']::jsonb[]`

const SENDING: [signature: string, sql: string, sent: { length: number; visible: number; headers: unknown[] }][] = [
  ['send(text, jsonb)', `send(:q, '{"n":1}'::jsonb)`, { length: 1, visible: 1, headers: [null] }],
  ['send(text, jsonb, integer)', `send(:q, '{"n":1}'::jsonb, 60)`, { length: 1, visible: 0, headers: [] }],
  [
    'send(text, jsonb, timestamp with time zone)',
    `send(:q, '{"n":1}'::jsonb, ${later})`,
    { length: 1, visible: 0, headers: [] },
  ],
  [
    'send(text, jsonb, jsonb)',
    `send(:q, '{"n":1}'::jsonb, '{"h":1}'::jsonb)`,
    { length: 1, visible: 1, headers: [{ h: 1 }] },
  ],
  [
    'send(text, jsonb, jsonb, integer)',
    `send(:q, '{"n":1}'::jsonb, '{"h":1}'::jsonb, 0)`,
    { length: 1, visible: 1, headers: [{ h: 1 }] },
  ],
  [
    'send(text, jsonb, jsonb, timestamp with time zone)',
    `send(:q, '{"n":1}'::jsonb, '{"h":1}'::jsonb, now())`,
    { length: 1, visible: 1, headers: [{ h: 1 }] },
  ],
  ['send_batch(text, jsonb[])', `send_batch(:q, ${two})`, { length: 2, visible: 2, headers: [null, null] }],
  ['send_batch(text, jsonb[], integer)', `send_batch(:q, ${two}, 60)`, { length: 2, visible: 0, headers: [] }],
  [
    'send_batch(text, jsonb[], timestamp with time zone)',
    `send_batch(:q, ${two}, ${later})`,
    { length: 2, visible: 0, headers: [] },
  ],
  [
    'send_batch(text, jsonb[], jsonb[])',
    `send_batch(:q, ${two}, ${twoHeaders})`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
  [
    'send_batch(text, jsonb[], jsonb[], integer)',
    `send_batch(:q, ${two}, ${twoHeaders}, 0)`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
  [
    'send_batch(text, jsonb[], jsonb[], timestamp with time zone)',
    `send_batch(:q, ${two}, ${twoHeaders}, now())`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
  ['send_topic(text, jsonb)', `send_topic('to.' || :q, '{"n":1}')`, { length: 1, visible: 1, headers: [null] }],
  [
    'send_topic(text, jsonb, integer)',
    `send_topic('to.' || :q, '{"n":1}', 60)`,
    { length: 1, visible: 0, headers: [] },
  ],
  [
    'send_topic(text, jsonb, jsonb, integer)',
    `send_topic('to.' || :q, '{"n":1}', '{"h":1}', 0)`,
    { length: 1, visible: 1, headers: [{ h: 1 }] },
  ],
  [
    'send_batch_topic(text, jsonb[])',
    `send_batch_topic('to.' || :q, ${two})`,
    { length: 2, visible: 2, headers: [null, null] },
  ],
  [
    'send_batch_topic(text, jsonb[], integer)',
    `send_batch_topic('to.' || :q, ${two}, 60)`,
    { length: 2, visible: 0, headers: [] },
  ],
  [
    'send_batch_topic(text, jsonb[], timestamp with time zone)',
    `send_batch_topic('to.' || :q, ${two}, ${later})`,
    { length: 2, visible: 0, headers: [] },
  ],
  [
    'send_batch_topic(text, jsonb[], jsonb[])',
    `send_batch_topic('to.' || :q, ${two}, ${twoHeaders})`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
  [
    'send_batch_topic(text, jsonb[], jsonb[], integer)',
    `send_batch_topic('to.' || :q, ${two}, ${twoHeaders}, 0)`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
  [
    'send_batch_topic(text, jsonb[], jsonb[], timestamp with time zone)',
    `send_batch_topic('to.' || :q, ${two}, ${twoHeaders}, now())`,
    { length: 2, visible: 2, headers: [{ h: 1 }, { h: 2 }] },
  ],
]

describe('Q-01 what others send by plain SQL, our client sees', () => {
  test.each(SENDING)('%s', async (_, sql, sent) => {
    const queue = await newQueue()
    if (sql.includes('_topic')) await plainSql(`select pgmq.bind_topic('to.' || :q, :q)`, queue)
    await plainSql(`select * from pgmq.${sql}`, queue)
    expect(await client.metrics(queue)).toMatchObject({ length: sent.length, visible: sent.visible })
    const read = await client.read<{ n: number }>(queue, { limit: 10 })
    expect(read.map(({ headers }) => headers)).toEqual(sent.headers)
    expect(read.map(({ message }) => message.n)).toEqual(sent.headers.map((_header, index) => index + 1))
  })
})

const READING: [signature: string, sql: string, messages: number[]][] = [
  ['read(text, integer, integer, jsonb)', 'read(:q, 60, 2)', [1, 2]],
  ['read(text, integer, integer, jsonb)', `read(:q, 60, 3, '{"n":3}')`, [3]],
  [
    'read_with_poll(text, integer, integer, integer, integer, jsonb)',
    `read_with_poll(:q, 60, 3, 1, 10, '{"n":2}')`,
    [2],
  ],
  ['read_grouped(text, integer, integer)', 'read_grouped(:q, 60, 2)', [1, 3]],
  [
    'read_grouped_with_poll(text, integer, integer, integer, integer)',
    'read_grouped_with_poll(:q, 60, 2, 1, 10)',
    [1, 3],
  ],
  ['read_grouped_rr(text, integer, integer)', 'read_grouped_rr(:q, 60, 2)', [1, 2]],
  [
    'read_grouped_rr_with_poll(text, integer, integer, integer, integer)',
    'read_grouped_rr_with_poll(:q, 60, 2, 1, 10)',
    [1, 2],
  ],
  ['read_grouped_head(text, integer, integer)', 'read_grouped_head(:q, 60, 5)', [1, 2]],
]

describe('Q-01 what our client sends, others read by plain SQL', () => {
  test.each(READING)('%s', async (_, sql, messages) => {
    const queue = await newQueue()
    const headers = ['a', 'b', 'a'].map((group) => ({ 'x-pgmq-group': group }))
    await client.sendBatch(queue, [{ n: 1 }, { n: 2 }, { n: 3 }], { headers })
    const rows = await plainSql(`select (message ->> 'n')::int as n, read_ct from pgmq.${sql}`, queue)
    expect(rows.map(({ n }) => Number(n)).sort((a, b) => a - b)).toEqual(messages)
    expect(rows.every(({ read_ct }) => read_ct === 1)).toBe(true)
    const left = await client.read<{ n: number }>(queue, { limit: 10 })
    expect(
      left.map(({ message }) => message.n),
      'hidden from us',
    ).toEqual([1, 2, 3].filter((n) => !messages.includes(n)))
  })
})

const TAKING: [signature: string, sql: string, left: { length: number; visible: number; archived: number }][] = [
  ['pop(text, integer)', 'pop(:q)', { length: 1, visible: 1, archived: 0 }],
  ['pop(text, integer)', 'pop(:q, 2)', { length: 0, visible: 0, archived: 0 }],
  ['delete(text, bigint)', 'delete(:q, 1::bigint)', { length: 1, visible: 1, archived: 0 }],
  ['delete(text, bigint[])', 'delete(:q, array[1, 2, 99]::bigint[])', { length: 0, visible: 0, archived: 0 }],
  ['archive(text, bigint)', 'archive(:q, 1::bigint)', { length: 1, visible: 1, archived: 1 }],
  ['archive(text, bigint[])', 'archive(:q, array[1, 2, 99]::bigint[])', { length: 0, visible: 0, archived: 2 }],
  ['set_vt(text, bigint, integer)', 'set_vt(:q, 1::bigint, 60)', { length: 2, visible: 1, archived: 0 }],
  [
    'set_vt(text, bigint, timestamp with time zone)',
    `set_vt(:q, 1::bigint, ${later})`,
    { length: 2, visible: 1, archived: 0 },
  ],
  ['set_vt(text, bigint[], integer)', 'set_vt(:q, array[1, 2]::bigint[], 60)', { length: 2, visible: 0, archived: 0 }],
  [
    'set_vt(text, bigint[], timestamp with time zone)',
    `set_vt(:q, array[1, 2]::bigint[], ${later})`,
    { length: 2, visible: 0, archived: 0 },
  ],
  ['purge_queue(text)', 'purge_queue(:q)', { length: 0, visible: 0, archived: 0 }],
]

describe('Q-01 what others do to our messages by plain SQL, our client sees', () => {
  test.each(TAKING)('%s', async (_, sql, { archived, ...left }) => {
    const queue = await newQueue()
    expect(await client.sendBatch(queue, [{ n: 1 }, { n: 2 }])).toEqual(['1', '2'])
    await plainSql(`select * from pgmq.${sql}`, queue)
    expect(await client.metrics(queue)).toMatchObject(left)
    expect(await plainSql(`select count(*)::int as archived from pgmq.a_${queue}`, queue)).toEqual([{ archived }])
  })
})

const MAKING: [signature: string, sql: string, unlogged: boolean][] = [
  ['create(text)', 'create(:q)', false],
  ['create_non_partitioned(text)', 'create_non_partitioned(:q)', false],
  ['create_unlogged(text)', 'create_unlogged(:q)', true],
]

describe('Q-01 queues that others make by plain SQL, our client uses', () => {
  test.each(MAKING)('%s', async (signature, sql, unlogged) => {
    const queue = `made_by_${signature.replace(/\W.*/, '')}`
    await plainSql(`select pgmq.${sql}`, queue)
    expect(await client.list()).toContainEqual(expect.objectContaining({ name: queue, unlogged }))
    const id = await client.send(queue, { n: 1 })
    expect(await client.read(queue)).toMatchObject([{ messageId: id, message: { n: 1 } }])
    await ensureCommandQueue(db, queue)
    expect(await client.pop(queue)).toBeUndefined()
  })

  test.each([
    ['drop_queue(text)', 'drop_queue(:q)'],
    ['drop_queue(text, boolean)', 'drop_queue(:q, false)'],
  ])('%s drops a queue of ours', async (_, sql) => {
    const queue = await newQueue()
    expect(await plainSql(`select pgmq.${sql} as dropped`, queue)).toEqual([{ dropped: true }])
    expect(await client.exists(queue)).toBe(false)
  })
})

const LOOKING: [signature: string, sql: string, expected: unknown][] = [
  ['list_queues()', `select queue_name from pgmq.list_queues() where queue_name = :q`, [{ queue_name: ':q' }]],
  ['metrics(text)', `select queue_name, queue_length from pgmq.metrics(:q)`, [{ queue_name: ':q', queue_length: '1' }]],
  ['metrics_all()', `select queue_length from pgmq.metrics_all() where queue_name = :q`, [{ queue_length: '1' }]],
  ['validate_queue_name(text)', 'select pgmq.validate_queue_name(:q) is not null as ok', [{ ok: true }]],
  ['format_table_name(text, text)', `select pgmq.format_table_name(:q, 'q') = 'q_' || :q as ok`, [{ ok: true }]],
  ['detach_archive(text)', 'select pgmq.detach_archive(:q) is not null as ok', [{ ok: true }]],
  ['create_fifo_index(text)', 'select pgmq.create_fifo_index(:q) is not null as ok', [{ ok: true }]],
  ['create_fifo_indexes_all()', 'select pgmq.create_fifo_indexes_all() is not null as ok', [{ ok: true }]],
  ['acquire_queue_lock(text)', 'select pgmq.acquire_queue_lock(:q) is not null as ok', [{ ok: true }]],
  ['enable_notify_insert(text, integer)', 'select pgmq.enable_notify_insert(:q) is not null as ok', [{ ok: true }]],
  ['list_notify_insert_throttles()', 'select * from pgmq.list_notify_insert_throttles() where queue_name = :q', []],
  ['disable_notify_insert(text)', 'select pgmq.disable_notify_insert(:q) is not null as ok', [{ ok: true }]],
  ['bind_topic(text, text)', `select pgmq.bind_topic('a.*', :q) is not null as ok`, [{ ok: true }]],
  ['unbind_topic(text, text)', `select pgmq.unbind_topic('b.*', :q) as unbound`, [{ unbound: false }]],
  ['list_topic_bindings(text)', 'select * from pgmq.list_topic_bindings(:q)', []],
  ['list_topic_bindings()', 'select * from pgmq.list_topic_bindings() where queue_name = :q', []],
  ['test_routing(text)', `select * from pgmq.test_routing('nowhere') where queue_name = :q`, []],
  ['validate_routing_key(text)', `select pgmq.validate_routing_key('a.b') as ok`, [{ ok: true }]],
  ['validate_topic_pattern(text)', `select pgmq.validate_topic_pattern('a.*') as ok`, [{ ok: true }]],
]

describe('Q-01 the rest of the interface works on a queue of ours', () => {
  test.each(LOOKING)('%s', async (_, sql, expected) => {
    const queue = await newQueue()
    await client.send(queue, { n: 1 })
    const rows = JSON.stringify(await plainSql(sql, queue)).replaceAll(`"${queue}"`, '":q"')
    expect(JSON.parse(rows)).toEqual(expected)
    expect(await client.read(queue)).toMatchObject([{ message: { n: 1 } }])
  })

  test('update_notify_insert(text, integer)', async () => {
    const queue = await newQueue()
    await plainSql('select pgmq.enable_notify_insert(:q)', queue)
    await plainSql('select pgmq.update_notify_insert(:q, 500)', queue)
    const [throttle] = await plainSql('select * from pgmq.list_notify_insert_throttles() where queue_name = :q', queue)
    expect(throttle).toMatchObject({ throttle_interval_ms: 500 })
  })
})

test('Q-02 our queues have no trigger that makes senders wait for each other', async () => {
  const queue = await newQueue()
  await client.send(queue, {})
  const triggers = await plainSql(`select tgname from pg_trigger where tgrelid = 'pgmq.q_${queue}'::regclass`, queue)
  expect(triggers).toEqual([])
})

test('Q-01 no function of the interface was left out', async () => {
  const tested = [...SENDING, ...READING, ...TAKING, ...MAKING, ...LOOKING].map(([signature]) => signature)
  const elsewhere = ['drop_queue(text)', 'drop_queue(text, boolean)', 'update_notify_insert(text, integer)']
  // They need the extension pg_partman, or are the trigger itself.
  const apart = [
    'create_partitioned(text, text, text)',
    'convert_archive_partitioned(text, text, text, integer)',
    'notify_queue_listeners()',
  ]
  const { rows } = await foreign.query<{ signature: string }>(`
    select proname || '(' || oidvectortypes(proargtypes) || ')' as signature
    from pg_proc
    where pronamespace = 'pgmq'::regnamespace and not starts_with(proname, '_')`)
  const present = rows.map(({ signature }) => signature).sort()
  expect(present).toEqual([...new Set([...tested, ...elsewhere, ...apart])].sort())
})
