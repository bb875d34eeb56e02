import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import type { Holdfast, WorkerOptions } from 'holdfast'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const empty = z.object({})

/** A process whose one step holds until it is let go, and that counts how many are inside at once. */
function counting(domain: string, concurrency: number | undefined) {
  const inside = new Map<string, () => void>()
  const seen = { most: 0, entered: 0 }
  const Busy = defineProcess(domain, 'Busy', {
    state: empty,
    ...(concurrency === undefined ? {} : { concurrency }),
    async execute(ctx) {
      await ctx.step(
        'hold',
        () =>
          new Promise<void>((resolve) => {
            inside.set(ctx.id, resolve)
            seen.entered += 1
            seen.most = Math.max(seen.most, inside.size)
          }),
        { timeout: '1h' },
      )
    },
  })
  const letGo = (count = inside.size) => {
    for (const [id, resolve] of [...inside].slice(0, count)) {
      inside.delete(id)
      resolve()
    }
  }
  return { Busy, inside, seen, letGo }
}

const startMany = async (definition: ReturnType<typeof counting>['Busy'], count: number) =>
  (
    await bus.hf.startMany(
      definition,
      Array.from({ length: count }, () => ({ input: {} })),
    )
  ).map(({ id }) => id)
const run = (hf: Holdfast, domain: string, options: WorkerOptions = {}) =>
  hf.run({ domains: [domain], poll: '20ms', concurrency: 10, ...options })
const rows = (domain: string) =>
  bus.sql<{ id: string; due_at: Date | null; queued_at: Date | null; leased_at: Date | null; status: string }>(
    `select id, due_at, queued_at, leased_at, status from holdfast.process where type = $1`,
    [`${domain}/Busy`],
  )
const slots = async (domain: string) =>
  (await bus.sql(`select process_id from holdfast.process_slot where type = $1`, [`${domain}/Busy`])).length
const queued = async (domain: string) => (await rows(domain)).filter(({ queued_at }) => queued_at !== null)
const done = async (domain: string) => (await rows(domain)).filter(({ status }) => status === 'COMPLETED').length

test('P-20 a limit holds across three workers; what is over it has no due_at until a slot frees', async () => {
  const { Busy, inside, seen, letGo } = counting('limit', 3)
  bus.hf.register(Busy)
  await Promise.all([1, 2, 3].map(() => run(bus.hf, 'limit')))
  await startMany(Busy, 20)
  await waitFor(
    'three execute and the rest queues',
    async () => inside.size === 3 && (await queued('limit')).length === 17,
  )
  for (const row of await queued('limit')) expect(row).toMatchObject({ due_at: null, leased_at: null })
  const [shown] = (await bus.hf.processes.list({ domain: 'limit', status: 'PENDING', limit: 1 })).items
  expect(shown).toMatchObject({ dueAt: null, queuedAt: expect.any(Date) })
  expect(await slots('limit')).toBe(3)
  while ((await done('limit')) < 20) {
    letGo(1)
    await waitFor('the next one enters', async () => inside.size > 0 || (await done('limit')) === 20)
  }
  expect(seen).toEqual({ most: 3, entered: 20 })
  expect(await slots('limit')).toBe(0)
})

test('P-20 queued processes begin in the order in which they became due, before later ones', async () => {
  const order: string[] = []
  const { Busy, inside, letGo } = counting('fifo', 1)
  bus.hf.register(Busy)
  await run(bus.hf, 'fifo')
  const ids: string[] = []
  for (let n = 0; n < 5; n++) {
    await bus.moveClock(10)
    ids.push(...(await startMany(Busy, 1)))
  }
  for (const _ of ids) {
    const [id] = await waitFor('one entered', () => {
      const entered = [...inside.keys()]
      return entered.length === 1 ? entered : undefined
    })
    order.push(id ?? '')
    letGo()
  }
  await waitFor('all are done', async () => (await done('fifo')) === 5)
  expect(order).toEqual(ids)
})

test('P-20 a freed slot wakes up a process that waits for it, without a poll', async () => {
  const { Busy, inside, letGo } = counting('wakes', 1)
  bus.hf.register(Busy)
  // Two workers that would look again by themselves only in an hour.
  await run(bus.hf, 'wakes', { poll: '1h' })
  await run(bus.hf, 'wakes', { poll: '1h' })
  await startMany(Busy, 6)
  for (let left = 6; left > 0; left--) {
    await waitFor('one is inside', () => inside.size === 1)
    letGo()
    await waitFor('it is done', async () => (await done('wakes')) === 7 - left)
  }
})

test('P-20 pausing frees the slot', async () => {
  let entered = 0
  const Busy = defineProcess('pauses', 'Busy', {
    state: empty,
    concurrency: 1,
    responses: { go: { data: empty } },
    async execute(ctx) {
      entered += 1
      await ctx.event('go', 'go')
    },
  })
  bus.hf.register(Busy)
  await run(bus.hf, 'pauses')
  const ids = (await bus.hf.startMany(Busy, [{ input: {} }, { input: {} }, { input: {} }])).map(({ id }) => id)
  await waitFor('all wait', async () => entered === 3 && (await slots('pauses')) === 0)
  for (const id of ids) await bus.hf.process(Busy, id).respond('go', {})
  for (const id of ids) await bus.hf.process(Busy, id).result()
})

test('P-20, P-17 a killed holder keeps its slot until its lease ends, and is the first to continue', async () => {
  const { Busy, inside, seen, letGo } = counting('killed', 2)
  const other = await openTestBus({ connectionString: bus.connectionString })
  other.hf.register(Busy)
  bus.hf.register(Busy)
  try {
    const victim = await run(other.hf, 'killed', { lease: '2s', concurrency: 2 })
    const ids = await startMany(Busy, 4)
    await waitFor('two execute and two queue', async () => inside.size === 2 && (await queued('killed')).length === 2)
    const holders = [...inside.keys()]
    victim.stopNow()
    // They hang in a dead worker: nobody is inside any more, and their slots are not free.
    inside.clear()
    const survivor = await run(bus.hf, 'killed')
    const [blocked] = await bus.sql<{ claimed: string[] | null }>(
      `select holdfast.claim_limited_processes('killed/Busy', 1, 2, 10, true) as claimed`,
    )
    expect(blocked?.claimed).toBeNull()
    await bus.moveClock(2_500)
    await waitFor('the two go on elsewhere', () => inside.size === 2)
    expect(new Set(inside.keys())).toEqual(new Set(holders))
    while ((await done('killed')) < 4) {
      letGo()
      await waitFor('the next enter', async () => inside.size > 0 || (await done('killed')) === 4)
    }
    expect(new Set((await rows('killed')).map(({ id }) => id))).toEqual(new Set(ids))
    expect(seen.most).toBe(2)
    expect(await slots('killed')).toBe(0)
    await survivor.stop()
  } finally {
    await other.close()
  }
})

test('P-20, P-23 a limit is raised and lowered at once by configuration', async () => {
  const { Busy, inside, letGo } = counting('tuned', 1)
  bus.hf.register(Busy)
  await run(bus.hf, 'tuned', { poll: '1h' })
  await startMany(Busy, 12)
  await waitFor('one is inside', async () => inside.size === 1 && (await queued('tuned')).length === 11)
  await bus.hf.processes.configure(Busy, { concurrency: 4 }, by)
  await waitFor('four are inside', () => inside.size === 4)
  await bus.hf.processes.configure(Busy, { concurrency: 2 }, by)
  letGo(2)
  await waitFor('two have ended', async () => (await done('tuned')) === 2)
  letGo(1)
  await waitFor('the third has ended and another came in', async () => (await done('tuned')) === 3 && inside.size === 2)
  expect(await slots('tuned')).toBe(2)
  await bus.hf.processes.configure(Busy, { concurrency: null }, by)
  while ((await done('tuned')) < 12) {
    expect(inside.size).toBeLessThanOrEqual(2)
    letGo(1)
    await waitFor('the next', async () => inside.size > 0 || (await done('tuned')) === 12)
  }
})

test('P-20, P-23 a limit that is set while processes execute counts them, and a limit that is removed frees the queue', async () => {
  const { Busy, inside, letGo } = counting('introduced', undefined)
  bus.hf.register(Busy)
  await run(bus.hf, 'introduced', { poll: '1h' })
  await startMany(Busy, 3)
  await waitFor('three are inside', () => inside.size === 3)
  await bus.hf.processes.configure(Busy, { concurrency: 2 }, by)
  await startMany(Busy, 4)
  await waitFor('the new ones queue', async () => (await queued('introduced')).length === 4)
  letGo(1)
  await waitFor('one has ended', async () => (await done('introduced')) === 1)
  expect(inside.size).toBe(2)
  // They entered without knowing of the limit, and give their slots back all the same.
  letGo(2)
  await waitFor(
    'two of those that queued are inside',
    async () => (await done('introduced')) === 3 && inside.size === 2,
  )
  expect(await slots('introduced')).toBe(2)
  await bus.hf.processes.configure(Busy, { concurrency: null }, by)
  await waitFor('all are inside', () => inside.size === 4)
  letGo()
  await waitFor('all are done', async () => (await done('introduced')) === 7)
})

test('P-20, P-17 a process that crashed before there was a limit goes on under it', async () => {
  const { Busy, inside, letGo } = counting('before', undefined)
  const other = await openTestBus({ connectionString: bus.connectionString })
  other.hf.register(Busy)
  try {
    const victim = await run(other.hf, 'before', { lease: '1s' })
    await startMany(Busy, 2)
    await waitFor('two are inside', () => inside.size === 2)
    victim.stopNow()
    inside.clear()
  } finally {
    await other.close()
  }
  // A release whose code has a limit: nobody has counted what was claimed before.
  const limited = counting('before', 1)
  bus.hf.register(limited.Busy)
  await bus.moveClock(1_500)
  await run(bus.hf, 'before')
  for (let left = 2; left > 0; left--) {
    await waitFor('one goes on', () => limited.inside.size === 1)
    limited.letGo()
    await waitFor('it is done', async () => (await done('before')) === 3 - left)
  }
  expect(limited.seen.most).toBe(1)
  letGo()
})

test('P-20 processes that queued for a limit that the code no longer has are freed by the next worker', async () => {
  const limited = counting('released', 1)
  const old = await openTestBus({ connectionString: bus.connectionString })
  old.hf.register(limited.Busy)
  await run(old.hf, 'released')
  await startMany(limited.Busy, 3)
  const queueing = async () => limited.inside.size === 1 && (await queued('released')).length === 2
  await waitFor('one is inside and two queue', queueing)
  const closing = old.close()
  limited.letGo()
  await closing
  // Nobody is left who would take them when a slot frees.
  expect(await queued('released')).toHaveLength(2)
  const unlimited = counting('released', undefined)
  bus.hf.register(unlimited.Busy)
  await run(bus.hf, 'released', { poll: '1h' })
  await waitFor('all are done', async () => {
    unlimited.letGo()
    return (await done('released')) === 3
  })
})

test('P-10, P-20 a limited process is never executed by its starter', async () => {
  const { Busy } = counting('starter', 1)
  bus.hf.register(Busy)
  expect(await (await bus.hf.start(Busy, {})).get()).toMatchObject({ status: 'PENDING' })
})
