import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { createCodec } from '../kernel/codec/codec.js'
import type { Page } from '../kernel/model/page.js'
import type { CommandListFilter } from './commands.js'
import { defineCommand } from './define.js'
import { type CommandFilter, type CommandRecord, findCommands } from './queries/find-commands.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

async function pages(filter: CommandListFilter): Promise<CommandRecord[][]> {
  const found: CommandRecord[][] = []
  let cursor: string | undefined
  do {
    const page: Page<CommandRecord> = await bus.hf.commands.list({ ...filter, ...(cursor ? { cursor } : {}) })
    found.push([...page.items])
    cursor = page.cursor
  } while (cursor !== undefined)
  return found
}

test('U-05 a list comes in pages, newest first, each command once, also where many were sent in the same moment', async () => {
  const [A, B] = [defineCommand('paged', 'A'), defineCommand('paged', 'B')]
  const sent: string[] = []
  for (const Do of [A, B, A]) {
    const many = await bus.hf.sendMany(
      Do,
      Array.from({ length: 11 }, (_, n) => ({ data: n })),
    )
    sent.push(...many.map(({ id }) => id))
  }
  const found = await pages({ domain: 'paged', limit: 4 })
  expect(found.map(({ length }) => length)).toEqual([4, 4, 4, 4, 4, 4, 4, 4, 1])
  const ids = found.flat().map(({ id }) => id)
  expect(ids.toSorted()).toEqual(sent.toSorted())
  const times = found.flat().map(({ createdAt }) => createdAt.getTime())
  expect(times).toEqual(times.toSorted((one, other) => other - one))
  expect(await bus.hf.commands.count({ domain: 'paged' })).toBe(33)
  expect(await bus.hf.commands.count({ domain: 'paged', type: 'B' })).toBe(11)
  expect((await pages({ domain: 'paged', type: 'A', limit: 10 })).flat()).toHaveLength(22)
})

test('U-05 a page of all domains goes on where it ended, also if its last command is one of two with the same id', async () => {
  const [One, Two] = [defineCommand('twins_1', 'Do'), defineCommand('twins_2', 'Do')]
  const { id } = await bus.hf.send(One, 1)
  await bus.hf.send(Two, 2, { id })
  await bus.sql(`update holdfast.command set created_at = '2031-01-01' where command_id = $1`, [id])
  const found = (await pages({ since: new Date('2031-01-01T00:00:00Z'), limit: 1 })).flat()
  expect(found.map(({ domain }) => domain)).toEqual(['twins_2', 'twins_1'])
  await bus.sql(`update holdfast.command set created_at = holdfast.now() where command_id = $1`, [id])
})

test('U-05 a list is narrowed by key, status, batch and correlation id, and counted so', async () => {
  const Do = defineCommand('narrowed', 'Do')
  const batch = await bus.hf.batches.open('narrowed')
  const keyed = await bus.hf.send(Do, 1, { key: 'K-1' })
  const { id: member } = await bus.hf.send(Do, 2, { batch, delay: '1h' })
  await keyed.cancel({ actor: 'ann', reason: 'test' })
  const ids = async (filter: CommandListFilter) => (await bus.hf.commands.list(filter)).items.map(({ id }) => id)
  expect(await ids({ key: 'K-1' })).toEqual([keyed.id])
  expect(await ids({ batch })).toEqual([member])
  expect(await ids({ batch, status: 'CANCELLED' })).toEqual([])
  expect(await ids({ domain: 'narrowed', status: 'CANCELLED' })).toEqual([keyed.id])
  expect(await ids({ domain: 'narrowed', status: 'PENDING' })).toEqual([member])
  expect(await bus.hf.commands.count({ key: 'K-1', status: 'CANCELLED' })).toBe(1)
  expect(await bus.hf.commands.count({ domain: 'nowhere' })).toBe(0)
})

test.each<[string, CommandListFilter, string]>([
  ['a cursor that is none', { cursor: 'x' }, 'HF_INVALID_OPTION'],
  ['a cursor of another list', { cursor: Buffer.from('[1,"PAY-1"]').toString('base64url') }, 'HF_INVALID_OPTION'],
  ['a page of nothing', { limit: 0 }, 'HF_INVALID_OPTION'],
  ['a key that is an id', { key: '01890a5d-ac96-774b-bcce-b302099a8057' }, 'HF_INVALID_KEY'],
])('U-05 %s is refused', async (_, filter, code) => {
  await expect(bus.hf.commands.list(filter)).rejects.toMatchObject({ code })
})

test('U-05 definitions lists the types, and how many live workers have them', async () => {
  const [Handled, Sent] = [defineCommand('defined', 'Handled'), defineCommand('defined', 'Sent')]
  await bus.work(Handled, () => null)
  await bus.hf.send(Sent, null)
  const found = await waitFor('the worker has said what it has', async () => {
    const all = (await bus.hf.commands.definitions()).filter(({ domain }) => domain === 'defined')
    return all.length === 2 ? all : undefined
  })
  expect(found).toEqual([
    { domain: 'defined', type: 'Handled', versions: [], liveWorkers: 1, lastSeenAt: expect.any(Date) },
    { domain: 'defined', type: 'Sent', versions: [], liveWorkers: 0, lastSeenAt: null },
  ])
})

test('U-05 a page reads few rows of a large table, whatever it is narrowed to and however deep it is', async () => {
  const [DOMAINS, TYPES, ROWS, LIMIT] = [3, 4, 30_000, 20]
  const large = await openTestBus()
  for (let n = 0; n < DOMAINS; n += 1) await large.hf.send(defineCommand(`large_${n}`, 'T0'), null)
  await large.sql(
    `insert into holdfast.command (command_id, domain, type, status, created_at, updated_at, batch_id, correlation_id, key)
     select gen_random_uuid(), 'large_' || n % $1, 'T' || n / $1 % $2, 'COMPLETED', now() - n * interval '1 s', now(),
       ('00000000-0000-0000-0000-00000000000' || n % 2)::uuid, case when n % 1000 = 0 then md5((n / 3000)::text)::uuid end, 'K' || n
     from generate_series(1, $3::int) as n`,
    [DOMAINS, TYPES, ROWS],
  )
  const rowsRead = (filter: CommandFilter) =>
    large.db.transaction(async (tx) => {
      const stats = async () => {
        const [row] = await tx.run<{ scans: number; rows: number }>({
          name: 'test.rows-read',
          text: `select seq_scan::int as scans, (seq_tup_read + idx_tup_fetch)::int as rows
                 from pg_stat_xact_user_tables where relid = 'holdfast.command'::regclass`,
        })
        return row ?? { scans: 0, rows: 0 }
      }
      const before = await stats()
      await findCommands(tx, createCodec(), { ...filter, limit: LIMIT })
      const after = await stats()
      return { scans: after.scans - before.scans, rows: after.rows - before.rows }
    })
  const [deep] = await large.sql<{ id: string; domain: string; createdAt: Date }>(
    `select command_id as id, domain, created_at as "createdAt" from holdfast.command
     where domain = 'large_1' order by created_at offset 100 limit 1`,
  )
  const most = DOMAINS * TYPES * (LIMIT + 5)
  const batch = '00000000-0000-0000-0000-000000000001'
  const filters: CommandFilter[] = [
    {},
    { domain: 'large_1' },
    { type: 'T2' },
    { domain: 'large_1', type: 'T2' },
    { since: new Date(Date.now() - 3_600_000) },
    { until: new Date(Date.now() - 20_000_000) },
    { key: 'K77' },
    { batch },
    { batch, domain: 'large_0' },
    { correlationId: '00000000-0000-0000-0000-000000000009' },
    { status: 'PENDING' },
    { status: 'IN_PROGRESS' },
    { status: 'IN_TROUBLESHOOTING_QUEUE' },
    { status: 'COMPLETED', domain: 'large_1' },
  ]
  for (const analyzed of [false, true]) {
    if (analyzed) await large.sql('analyze holdfast.command')
    for (const filter of filters) {
      for (const after of [undefined, deep]) {
        const { scans, rows } = await rowsRead({ ...filter, after })
        const what = JSON.stringify({ ...filter, after: after !== undefined, analyzed, rows })
        expect(scans, what).toBe(0)
        expect(rows, what).toBeLessThanOrEqual(most)
      }
    }
  }
  await large.close()
})

test('U-05 a list is a page of records', () => {
  expectTypeOf(bus.hf.commands.list).returns.resolves.toEqualTypeOf<Page<CommandRecord>>()
  expectTypeOf(bus.hf.commands.count).returns.resolves.toEqualTypeOf<number>()
})
