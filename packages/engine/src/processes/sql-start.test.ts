import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../kernel/codec/codec.js'
import { defineProcess } from './define.js'

let bus: TestBus
let client: pg.Client
const seen: unknown[] = []
const Pay = defineProcess('sql', 'Pay', {
  state: z.object({ amount: z.number(), at: z.coerce.date().optional(), note: z.string().default('none') }),
  version: 2,
  deadline: ({ amount }) => (amount > 100 ? '1h' : undefined),
  responses: { go: { data: z.object({}) } },
  async execute(ctx, state) {
    seen.push({ ...state, at: state.at?.toISOString() })
    if (state.note === 'wait') await ctx.event('go', 'go', { timeout: '10d' })
    return state.amount * 2
  },
})
beforeAll(async () => {
  bus = await openTestBus()
  client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  bus.hf.register(Pay)
  await bus.hf.run({ domains: ['sql'], poll: '20ms' })
})
afterAll(async () => {
  await client.end()
  await bus.close()
})

const start = async (call: string, params: unknown[] = []): Promise<string> => {
  const { rows } = await client.query<{ id: string }>(`select holdfast.start(${call}) as id`, params)
  return rows[0]?.id ?? ''
}
const get = (id: string) => bus.hf.process(Pay, id).get()
const by = { actor: 'ann', reason: 'ticket 7' }

test('K-15, P-10 one statement of any client starts a process, whose state is parsed before its code sees it', async () => {
  const id = await start(`'sql', 'Pay', '{"amount": 21, "at": "2030-01-31T12:00:00Z"}'`)
  expect(await bus.hf.process(Pay, id).result()).toBe(42)
  expect(seen).toContainEqual({ amount: 21, at: '2030-01-31T12:00:00.000Z', note: 'none' })
  const state = { amount: 21, at: new Date('2030-01-31T12:00:00Z'), note: 'none' }
  expect(await get(id)).toMatchObject({ state, version: 2, model: 'PROCESS_STEP', deadline: null })
})

test('K-15 it takes all that start takes', async () => {
  const id = randomUUID()
  const batchId = await bus.hf.batches.open('sql')
  const startAt = new Date(Date.now() + 86_400_000)
  const deadline = new Date(Date.now() + 2 * 86_400_000)
  const answer = await start(`domain => 'sql', type => 'Pay', input => '{"amount": 1}', options => $1`, [
    { id, key: 'PAY-1', startAt, deadline, attributes: { country: 'CH', n: 1, vip: true }, batch: batchId },
  ])
  expect(answer).toBe(id)
  expect(await get('PAY-1')).toMatchObject({
    id,
    status: 'PENDING',
    dueAt: startAt,
    deadline,
    attributes: { country: 'CH', n: 1, vip: true },
    batchId,
  })
  expect((await bus.hf.batches.get(batchId)).total).toBe(1)
})

test('K-15, P-10 an id or key that exists already starts nothing', async () => {
  const id = await start(`'sql', 'Pay', '{"amount": 3}', '{"key": "ONCE"}'`)
  expect(await start(`'sql', 'Pay', '{"amount": 4}', '{"key": "ONCE"}'`)).toBe(id)
  expect(await start(`'sql', 'Pay', '{"amount": 5}', $1`, [{ id }])).toBe(id)
  expect(await bus.hf.process(Pay, id).result()).toBe(6)
})

test('K-15 inside a transaction that is rolled back nothing was started', async () => {
  await client.query('begin')
  const id = await start(`'sql', 'Pay', '{"amount": 1}'`)
  await client.query('rollback')
  await expect(get(id)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('K-10, K-15 a state that does not fit goes to troubleshooting as it came, and no code sees it', async () => {
  const before = seen.length
  const id = await start(`'sql', 'Pay', '{"amount": "much"}'`)
  await waitFor('it needs a person', async () => (await get(id)).status === 'WAITING_FOR_TSQ')
  expect(await get(id)).toMatchObject({
    state: { amount: 'much' },
    error: { kind: 'PERMANENT', code: 'HF_INVALID_DATA', message: expect.stringContaining('$.amount') },
  })
  await bus.hf.process(Pay, id).retry(by)
  await waitFor('it is back', async () => (await bus.hf.trouble.count({ model: 'processes', domain: 'sql' })) === 1)
  expect(seen).toHaveLength(before)
  await bus.hf.process(Pay, id).cancel(by, { compensate: true })
  await waitFor('it is over', async () => (await get(id)).status === 'CANCELLED')
  expect(seen).toHaveLength(before)
})

test("K-15, P-15 the definition's deadline holds, unless the starter gave one", async () => {
  const own = await start(`'sql', 'Pay', '{"amount": 200, "note": "wait"}'`)
  await waitFor('it waits', async () => (await get(own)).status === 'WAITING_FOR_ASYNC')
  const { deadline, createdAt } = await get(own)
  expect((deadline?.getTime() ?? 0) - createdAt.getTime()).toBeGreaterThanOrEqual(3_600_000)
  const given = new Date(Date.now() + 86_400_000)
  const other = await start(`'sql', 'Pay', '{"amount": 200, "note": "wait"}', $1`, [{ deadline: given }])
  await waitFor('it waits', async () => (await get(other)).status === 'WAITING_FOR_ASYNC')
  expect((await get(other)).deadline).toEqual(given)
  await bus.moveClock(3_700_000)
  await waitFor('the deadline was met', async () => (await get(own)).error?.code === 'DEADLINE_EXCEEDED')
  expect((await get(other)).status).toBe('WAITING_FOR_ASYNC')
})

test('K-15 a parsed state is replayed as it was parsed, not parsed again', async () => {
  const id = await start(`'sql', 'Pay', '{"amount": 7, "note": "wait", "at": "2030-01-01T00:00:00Z"}'`)
  await waitFor('it waits', async () => (await get(id)).status === 'WAITING_FOR_ASYNC')
  const [row] = await bus.sql<{ state: object; state_checked: boolean }>(
    'select state, state_checked from holdfast.process_detail where id = $1',
    [id],
  )
  expect(row).toEqual({ state: { amount: 7, note: 'wait', at: '2030-01-01T00:00:00.000Z' }, state_checked: true })
  await bus.hf.process(Pay, id).respond('go', {})
  expect(await bus.hf.process(Pay, id).result()).toBe(14)
  expect(seen.filter((state) => (state as { amount: number }).amount === 7)).toHaveLength(2)
})

test('K-10 with a codec of its own, what comes through SQL is plain JSON and stored encoded', async () => {
  const plain = createCodec()
  const secret = {
    encode: (value: unknown, options?: { readonly at?: string }) => {
      const { json, notes } = plain.encode(value, options)
      return { json: JSON.stringify({ sealed: Buffer.from(json).toString('base64') }), notes }
    },
    decode: ({ json, notes }: { json: unknown; notes: Readonly<Record<string, string>> | null }) => {
      const { sealed } = json as { sealed: string }
      return plain.decode({ json: JSON.parse(Buffer.from(sealed, 'base64').toString()), notes })
    },
  }
  const own = await openTestBus({ codec: secret })
  own.hf.register(Pay)
  await own.hf.run({ domains: ['sql'], poll: '20ms' })
  const [row] = await own.sql<{ id: string }>(`select holdfast.start('sql', 'Pay', '{"amount": 4}') as id`)
  const id = row?.id ?? ''
  expect(await own.hf.process(Pay, id).result()).toBe(8)
  const [stored] = await own.sql('select state from holdfast.process_detail where id = $1', [id])
  expect(stored).toEqual({ state: { sealed: expect.any(String) } })
  await own.close()
})

test('P-18 a start through SQL takes the newest version that workers have lately had', async () => {
  const note = (version: number, ago: string) =>
    bus.sql(
      `insert into holdfast.worker_definition (model, name, version, worker, lease_ms, seen_at)
       values ('processes', 'versions/V', $1, 'w', 30000, holdfast.now() - $2::interval)
       on conflict (model, name, version, worker) do update set seen_at = excluded.seen_at`,
      [version, ago],
    )
  const version = async () => {
    const id = await start(`'versions', 'V', '{}'`)
    return (await bus.hf.process({ domain: 'versions', type: 'V' }, id).get()).version
  }
  await note(1, '3 hours')
  expect(await version()).toBe(1)
  await note(2, '2 minutes')
  await note(1, '1 minute')
  expect(await version()).toBe(2)
  // Rolled back: nobody has had version 2 for long.
  await note(2, '2 hours')
  expect(await version()).toBe(1)
})

test.each([
  [
    'a process that nobody defined',
    `'sql', 'Nobody', '{}'`,
    '22023',
    'HF_NOT_FOUND: there is no process or workflow sql/Nobody',
  ],
  ['an option that is none', `'sql', 'Pay', '{}', '{"execTime": 1}'`, '22023', 'start: there is no option `execTime`'],
  ['no type', `'sql', null, '{}'`, '22023', 'HF_NOT_FOUND'],
  ['no input', `'sql', 'Pay', null`, '22023', 'input'],
  ['an empty key', `'sql', 'Pay', '{}', '{"key": ""}'`, '22023', 'key'],
  ['a key that looks like an id', `'sql', 'Pay', '{}', jsonb_build_object('key', gen_random_uuid())`, '22023', 'key'],
  ['nested attributes', `'sql', 'Pay', '{}', '{"attributes": {"a": ["b"]}}'`, '22023', 'attributes'],
  ['attributes that are a list', `'sql', 'Pay', '{}', '{"attributes": [1]}'`, '22023', 'attributes'],
  [
    'a batch that is not there',
    `'sql', 'Pay', '{}', jsonb_build_object('batch', gen_random_uuid())`,
    '22023',
    'takes no more',
  ],
])('K-15 %s is refused, and nothing is written', async (_, call, code, said) => {
  const count = async () => (await bus.sql('select id from holdfast.process_detail')).length
  const before = await count()
  await expect(start(call)).rejects.toMatchObject({ code, message: expect.stringContaining(said) })
  expect(await count()).toBe(before)
})
