import { openTestBus } from '@holdfast/testing/internal'
import { afterAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import type { Page } from '../kernel/model/page.js'
import { defineProcess } from './define.js'
import type { ProcessListFilter } from './processes.js'
import type { ProcessRecord } from './queries/find-processes.js'

const bus = await openTestBus()
afterAll(() => bus.close())
const by = { actor: 'ann', reason: 'ticket 7' }

const Waits = defineProcess('pages', 'Waits', {
  state: z.number(),
  execute: async (ctx) => void (await ctx.wait('approval', () => false)),
})
const Ends = defineProcess('pages', 'Ends', { state: z.number(), execute: async () => undefined })

async function pages(filter: ProcessListFilter): Promise<string[][]> {
  const found: string[][] = []
  let cursor: string | undefined
  do {
    const page = await bus.hf.processes.list({ ...filter, ...(cursor === undefined ? {} : { cursor }) })
    found.push(page.items.map(({ id }) => id))
    cursor = page.cursor
  } while (cursor !== undefined)
  return found
}

test('U-05 pages of a list have all that fit once, newest first, also those that were created at once', async () => {
  const inputs = Array.from({ length: 25 }, (_, input) => ({ input }))
  // Created by one statement: all at the same moment.
  await bus.hf.startMany(Waits, inputs)
  await bus.moveClock(1_000)
  const newest = await bus.hf.start(Ends, 1)
  const found = await pages({ domain: 'pages', limit: 10 })
  expect(found.map((page) => page.length)).toEqual([10, 10, 6])
  expect(found[0]?.[0]).toBe(newest.id)
  const [rows] = [await bus.sql<{ id: string }>('select id from holdfast.process order by created_at desc, id desc')]
  expect(found.flat()).toEqual(rows.map(({ id }) => id))
  expect(await pages({ domain: 'pages', limit: 26 })).toHaveLength(1)
  for (const status of ['PENDING', 'COMPLETED'] as const) {
    const some = (await pages({ domain: 'pages', status, limit: 7 })).flat()
    expect(some).toHaveLength(status === 'PENDING' ? 25 : 1)
    expect(new Set(some).size).toBe(some.length)
    expect(await bus.hf.processes.count({ domain: 'pages', status })).toBe(some.length)
  }
  expect(await bus.hf.processes.count({ domain: 'pages' })).toBe(26)
  expect(await bus.hf.processes.count({ domain: 'elsewhere' })).toBe(0)
})

test('U-05 waitingFor finds what waits for a call', async () => {
  const { id } = await bus.hf.start(Waits, 100)
  const filter = { domain: 'pages', waitingFor: 'approval' } as const
  expect((await pages(filter)).flat()).toEqual([id])
  expect((await pages({ ...filter, status: 'WAITING_FOR_ASYNC' })).flat()).toEqual([id])
  expect((await pages({ ...filter, status: 'WAITING_FOR_RETRY' })).flat()).toEqual([])
  expect(await bus.hf.processes.count({ ...filter, waitingFor: 'payment' })).toBe(0)
})

test('U-05 a page reads about what it shows, however many processes there are', async () => {
  await bus.sql(`
    with made as (
      insert into holdfast.process_detail (id, type, model, created_at, start_at, updated_at, state)
      select gen_random_uuid(), 'crowd/Pay', 'PROCESS_STEP', at, at, at, '{}'
      from generate_series(1, 5000) as n, lateral (select holdfast.now() - n * interval '1 s') as moment (at)
      returning id, type, created_at
    )
    insert into holdfast.process (id, type, version, status, created_at)
    select id, type, 1, 'COMPLETED', created_at from made`)
  await bus.sql('analyze holdfast.process; analyze holdfast.process_detail')
  const first = await bus.hf.processes.list({ domain: 'crowd', limit: 10 })
  const read = async (filter: object) => {
    const [row] = await bus.db.transaction(async (tx) => {
      await tx.run({ name: 'test.find', text: 'select count(*) from holdfast.find_processes($1::text::jsonb)' }, [
        JSON.stringify({ limit: 11, ...filter }),
      ])
      return tx.run<{ whole: number; rows: number }>({
        name: 'test.read',
        text: `
          select sum(coalesce(seq_tup_read, 0))::int as whole, sum(coalesce(idx_tup_fetch, 0))::int as rows
          from pg_catalog.pg_stat_xact_user_tables
          where relid in ('holdfast.process'::regclass, 'holdfast.process_detail'::regclass)`,
      })
    })
    return row
  }
  const last = first.items.at(-1)
  const after = { after_at: last?.createdAt, after_id: last?.id }
  for (const filter of [{}, { domain: 'crowd' }, { domain: 'crowd', type: 'Pay', ...after }, { status: 'FAILED' }]) {
    const found = await read(filter)
    expect(found?.whole, JSON.stringify(filter)).toBe(0)
    // A page per type is read and put in order; never the 10,000 rows of the two tables.
    expect(found?.rows, JSON.stringify(filter)).toBeLessThan(2_500)
  }
})

test('U-05 definitions and settings say what the installation knows', async () => {
  await bus.runProcesses(Ends)
  expect(await bus.hf.processes.definitions()).toContainEqual({
    domain: 'pages',
    type: 'Ends',
    version: 1,
    liveWorkers: 1,
  })
  await bus.hf.processes.configure(Ends, { concurrency: 5 }, by)
  expect(await bus.hf.processes.settings(Ends)).toEqual([
    expect.objectContaining({ domain: 'pages', type: 'Ends', concurrency: 5 }),
  ])
  expect(await bus.hf.processes.settings(Waits)).toEqual([])
  expectTypeOf(bus.hf.processes.list).returns.resolves.toEqualTypeOf<Page<ProcessRecord>>()
})
