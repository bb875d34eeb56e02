import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const ran: number[] = []
const Numbered = defineProcess('ordered', 'Numbered', {
  state: z.object({ n: z.number() }),
  execute: async (ctx, { n }) => {
    await ctx.sideEffect('note', () => void ran.push(n))
  },
})

test('K-01 the row that has been due longest is claimed first', async () => {
  const { id: held } = await bus.hf.start(Numbered, { n: -1 }, { immediate: false })
  // Not in the order of their ids, nor in that of their creation.
  const soon = Date.now() + 60_000
  for (const n of [3, 0, 4, 1, 2]) {
    const startAt = new Date(soon + n * 1_000)
    await bus.hf.start(Numbered, { n }, { startAt, immediate: false })
  }
  await bus.moveClock(120_000)
  await bus.runProcesses(Numbered, { concurrency: 1 })
  await waitFor('all have run', () => ran.length === 6)
  expect(ran).toEqual([-1, 0, 1, 2, 3, 4])
  await bus.rests(held, 'COMPLETED')
})

test('K-17 a row locked by another transaction is skipped, not waited for', async () => {
  const startAt = new Date(Date.now() + 600_000)
  const held = await bus.hf.start(Numbered, { n: 100 }, { startAt, immediate: false })
  const { id } = await bus.hf.start(Numbered, { n: 101 }, { startAt, immediate: false })
  const holder = new pg.Client({ connectionString: bus.connectionString })
  await holder.connect()
  try {
    await holder.query('begin')
    await holder.query('select from holdfast.process where id = $1 for update', [held.id])
    await bus.moveClock(600_000)
    await bus.rests(id, 'COMPLETED')
    expect((await bus.process(held.id)).status).toBe('PENDING')
  } finally {
    await holder.query('rollback')
    await holder.end()
  }
  await bus.rests(held.id, 'COMPLETED')
})
