import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, testDatabase, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { holdfast } from '../holdfast.js'
import { createCodec } from '../kernel/codec/codec.js'
import { defineCommand } from './define.js'

// What a foreign client puts into a queue is data (K-27). It reaches PGMQ directly, past `hf.send`.

let bus: TestBus
const notOurs: Record<string, number> = {}
beforeAll(async () => {
  bus = await openTestBus({
    metrics: {
      count: (name, labels, by = 1) => {
        const domain = String(labels.domain)
        if (name === 'messages_not_ours') notOurs[domain] = (notOurs[domain] ?? 0) + by
      },
      gauge: () => undefined,
      observe: () => undefined,
    },
  })
})
afterAll(() => bus.close())

/** SQL refuses types that no worker has ever had. */
const hadHandler = ({ sql }: TestBus, domain: string) =>
  sql(
    `insert into holdfast.worker_definition (model, name, version, worker, seen_at)
     values ('commands', $1 || '/Do', 0, 'w', holdfast.now())`,
    [domain],
  )

const by = { actor: 'ann', reason: 'test' }
const pgmqSend = (domain: string, message: object, headers: object | null = null) =>
  bus.sql('select pgmq.send($1, $2::jsonb, $3::jsonb, 0)', [
    `${domain}__commands`,
    JSON.stringify(message),
    JSON.stringify(headers),
  ])
const message = (over: object = {}) => ({ command_type: 'Do', command_id: randomUUID(), data: 1, ...over })
const rows = async (table: string) => bus.sql<{ message: { data?: unknown } }>(`select message from pgmq."${table}"`)
const troubled = async (domain: string, id: string) =>
  waitFor('it is in troubleshooting', async () =>
    (await bus.hf.trouble.list({ model: 'commands', domain })).items.find((record) => record.id === id),
  )

describe('K-27 reply queues', () => {
  test('K-27 a reply_to that names a sequence, an index or no queue at all fails no other command of the same commit', async () => {
    const Do = defineCommand('poisoned', 'Do')
    const runs = new Map<unknown, number>()
    await bus.hf.send(Do, 'first')
    await bus.hf.queues.create('poisoned__replies')
    const names = ['poisoned__commands_msg_id_seq', 'poisoned__commands_pkey', 'nowhere', 'X"; drop table', '']
    // Allowed, so that the replies are really tried.
    for (const name of names.slice(0, 3))
      await bus.sql('insert into holdfast.reply_queue values ($1, $2)', ['poisoned', name])
    for (let n = 0; n < 200; n += 1) await pgmqSend('poisoned', message({ data: n }))
    const bad = names.map((reply_to) => ({ ...message({ data: `bad ${reply_to}` }), reply_to }))
    for (const one of bad) await pgmqSend('poisoned', one)
    await bus.work(Do, (data) => void runs.set(data, (runs.get(data) ?? 0) + 1), { concurrency: 300 })
    await waitFor('all are finished', async () => (await rows('q_poisoned__commands')).length === 0)
    expect([...runs.values()].filter((count) => count !== 1)).toEqual([])
    expect(runs.size).toBe(206)
    for (const { command_id, reply_to } of bad) {
      const { status } = await bus.hf.command(Do, command_id).get()
      const audit = await bus.hf.command(Do, command_id).history()
      expect(status).toBe('COMPLETED')
      const failed = audit.find(({ event }) => event === 'REPLY_FAILED')
      expect(failed?.detail).toMatchObject({ queue: reply_to, problem: expect.stringMatching(/./) })
    }
  })

  test('C-10 a send by SQL with a reply_to that names a sequence is refused as a queue that does not exist', async () => {
    await bus.hf.send(defineCommand('sequence', 'Do'), 1)
    await hadHandler(bus, 'sequence')
    await expect(
      bus.sql(`select holdfast.send('sequence', 'Do', '1', '{"replyTo": "sequence__commands_msg_id_seq"}')`),
    ).rejects.toMatchObject({ message: expect.stringContaining('does not exist') })
  })

  test('K-27 a foreign client gets no reply into the queue of another domain, unless that is allowed', async () => {
    const Do = defineCommand('mine', 'Do')
    const others = ['theirs__replies', 'theirs__process_replies', 'theirs__commands', 'mine__process_replies']
    for (const queue of [...others, 'mine__replies']) await bus.hf.queues.create(queue)
    await bus.work(Do, () => 'paid')
    const sent = [...others, 'mine__replies'].map((reply_to) => message({ reply_to }))
    for (const one of sent) await pgmqSend('mine', one)
    await waitFor('all are finished', async () => (await rows('q_mine__commands')).length === 0)
    for (const queue of others) expect(await bus.hf.queues.read(queue), queue).toEqual([])
    expect(await bus.hf.queues.read('mine__replies')).toMatchObject([{ message: { outcome: 'SUCCESS' } }])
    const [refused] = sent
    const command = bus.hf.command(Do, refused?.command_id ?? '')
    expect(await command.get()).toMatchObject({ status: 'COMPLETED', replyTo: null })
    expect((await command.history()).find(({ event }) => event === 'REPLY_FAILED')?.detail).toEqual({
      domain: 'mine',
      queue: 'theirs__replies',
      problem: 'not a reply queue of the domain mine',
    })

    await bus.hf.commands.allowReplies('mine', 'theirs__replies', by)
    await bus.hf.commands.allowReplies('mine', 'theirs__replies', by)
    expect(await bus.hf.commands.replyQueues('mine')).toEqual(['theirs__replies'])
    await pgmqSend('mine', message({ reply_to: 'theirs__replies' }))
    await waitFor('it is replied to', async () => (await bus.hf.queues.read('theirs__replies')).length === 1)
    await bus.hf.commands.disallowReplies('mine', 'theirs__replies', by)
    expect(await bus.hf.commands.replyQueues('mine')).toEqual([])
    const changes = await bus.hf.auditTrail({ name: 'mine' })
    expect(changes.map(({ event, actor }) => [event, actor])).toEqual([
      ['REPLY_QUEUE_ALLOWED', 'ann'],
      ['REPLY_QUEUE_DISALLOWED', 'ann'],
    ])
  })
})

describe('K-27 messages that cannot be run', () => {
  const Do = defineCommand('odd', 'Do')
  let calls = 0
  beforeAll(async () => {
    await bus.hf.queues.create('odd__replies')
    await bus.work(Do, () => {
      calls += 1
    })
  })

  test.each<[string, object, object | null, string]>([
    ['a correlation_id that is no UUID', { correlation_id: 'PAY-7' }, null, 'PAY-7'],
    ['a correlation_id that is a number', { correlation_id: 7 }, null, 'correlation_id'],
    ['a reply_to that is no text', { reply_to: { queue: 'odd__replies' } }, null, 'reply_to'],
    ['type notes that are a list', {}, { notes: ['date'] }, 'type notes'],
    ['type notes of numbers', {}, { notes: { '': 1 } }, 'type notes'],
    ['data over the size limit', { data: 'x'.repeat(1_100_000) }, null, '1048576 bytes'],
    ['numbers that are small in jsonb and huge as text', { data: '@@' }, null, 'a double cannot hold'],
  ])('K-27 %s: in troubleshooting with what is wrong, and never called', async (_, over, headers, said) => {
    const before = calls
    const one = message({ reply_to: 'odd__replies', ...over })
    if ('data' in over && over.data === '@@') {
      const text = JSON.stringify(one).replace('"@@"', `[${'1e100000,'.repeat(20_000)}0]`)
      await bus.sql(`select pgmq.send('odd__commands', $1::jsonb)`, [text])
    } else await pgmqSend('odd', one, headers)
    expect(await troubled('odd', one.command_id)).toMatchObject({
      kind: 'PERMANENT',
      code: 'INVALID_MESSAGE',
      message: expect.stringContaining(said),
    })
    const command = bus.hf.command(Do, one.command_id)
    expect(await command.get()).toMatchObject({ status: 'IN_TROUBLESHOOTING_QUEUE', attempts: 0, data: null })
    expect((await command.history()).map(({ event }) => event)).toEqual(
      expect.arrayContaining(['ADOPTED', 'MOVED_TO_TSQ']),
    )
    expect(calls).toBe(before)
    // The queue goes on.
    await (await bus.hf.send(Do, null)).result()
    expect(await rows('q_odd__commands')).toEqual([])
    if (!('reply_to' in over)) {
      const reply = await bus.hf.queues.pop('odd__replies')
      expect(reply).toMatchObject({ message: { command_id: one.command_id, outcome: 'FAILED', final: false } })
    }
    await bus.hf.command(Do, one.command_id).cancel(by)
    if (!('reply_to' in over)) {
      expect(await bus.hf.queues.pop('odd__replies')).toMatchObject({ message: { outcome: 'CANCELLED', final: true } })
    }
  })

  test('K-27 a message that names another domain is archived and counted', async () => {
    await bus.hf.send(defineCommand('stranger', 'Do'), 1)
    await pgmqSend('odd', message({ domain: 'stranger' }))
    await waitFor('it is in the archive', async () => {
      const found = await bus.sql(`select 1 from pgmq.a_odd__commands where message ->> 'domain' = 'stranger'`)
      return found.length === 1
    })
    expect(notOurs.odd).toBeGreaterThan(0)
  })
})

test('K-27 2,000 messages that are no commands in front of a good one do not delay it', async () => {
  const Do = defineCommand('junk', 'Do')
  await bus.hf.send(Do, 'before')
  await bus.sql(`
    insert into pgmq.q_junk__commands (vt, message)
    select holdfast.now() - interval '1 hour', jsonb_build_object('command_type', 'Do', 'command_id', n, 'data', n)
    from generate_series(1, 2000) as n`)
  const began: unknown[] = []
  const received = async () => (await bus.sql('select 1 from pgmq.a_junk__commands')).length
  const worker = await bus.work(Do, (data) => void began.push(data), { concurrency: 1, poll: '1h' })
  await waitFor('the good one ran', () => began.length === 1)
  // All were cleared by the claim that took the good one, or one before it: no poll lies between.
  expect(await received()).toBe(2_000)
  expect(notOurs.junk).toBe(2_000)
  await worker.stop()
})

test('K-23 a claim takes no more than 32 MB, and the rest follows at once', async () => {
  const Do = defineCommand('heavy', 'Do')
  const heavy = { data: 'x'.repeat(1_000_000) }
  for (let part = 0; part < 2; part += 1)
    await bus.hf.sendMany(
      Do,
      Array.from({ length: 20 }, () => heavy),
    )
  const queue = 'heavy__commands'
  const claim = `select json_array_length(items) as taken, octet_length(items::text) as bytes, next_due_ms
    from holdfast.receive_commands($1, 'heavy', '{Do}', '{null}', 'w', 1000, 60000, false, 1000)`
  const claims: { taken: number; bytes: number; next_due_ms: number | null }[] = []
  for (let left = 40; left > 0; ) {
    const [row] = await bus.sql<{ taken: number; bytes: number; next_due_ms: number | null }>(claim, [queue])
    if (!row || row.taken === 0) break
    claims.push(row)
    left -= row.taken
  }
  expect(claims.reduce((sum, { taken }) => sum + taken, 0)).toBe(40)
  for (const { bytes } of claims) expect(bytes).toBeLessThan(33_554_432)
  expect(claims[0]?.next_due_ms).toBe(0)
  expect(claims.at(-1)?.next_due_ms ?? null).not.toBe(0)
})

describe('K-10 the size limit in SQL', () => {
  test('K-10 holdfast.send refuses what is over 1 MB', async () => {
    await bus.hf.send(defineCommand('large', 'Do'), 1)
    await hadHandler(bus, 'large')
    const send = (characters: number) =>
      bus.sql(`select holdfast.send('large', 'Do', to_jsonb(repeat('x', $1)))`, [characters])
    await expect(send(1_048_576)).rejects.toMatchObject({ message: expect.stringContaining('HF_TOO_LARGE') })
    await send(1_048_000)
  })

  test('K-10 SQL goes by the limit of the codec with which the installation was opened', async () => {
    const { connectionString } = await testDatabase()
    const first = await holdfast({ connectionString, codec: createCodec({ maxBytes: 5_000_000 }), logger: false })
    const Do = defineCommand('larger', 'Do')
    await first.send(Do, 1)
    const second = await holdfast({ connectionString, logger: false })
    const other = await openTestBus({ connectionString })
    await hadHandler(other, 'larger')
    await other.sql(`select holdfast.send('larger', 'Do', to_jsonb(repeat('x', 4000000)))`)
    await expect(
      other.sql(`select holdfast.send('larger', 'Do', to_jsonb(repeat('x', 6000000)))`),
    ).rejects.toMatchObject({ message: expect.stringContaining('5000000') })
    expect((await first.auditTrail({ name: 'payload_bytes' })).map(({ after }) => after)).toEqual([5_000_000])
    await Promise.all([first.close(), second.close(), other.close()])
  })
})

test('K-27 the functions that are made for a queue fix their search_path', async () => {
  await bus.hf.send(defineCommand('fixed', 'Do'), 1)
  const functions = await bus.sql<{ proname: string; proconfig: string[] | null }>(
    `select proname, proconfig from pg_proc where proname ~ '^(put|take|end)_fixed__commands$' order by 1`,
  )
  expect(functions.map(({ proname }) => proname)).toEqual([
    'end_fixed__commands',
    'put_fixed__commands',
    'take_fixed__commands',
  ])
  for (const { proconfig } of functions) expect(proconfig).toContain('search_path=pg_catalog, pg_temp')
})
