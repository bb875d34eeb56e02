import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './commands/index.js'
import { commandSource } from './commands/source.js'
import { cycleSource } from './dispatch/source.js'
import { choreSource } from './kernel/chores/chores.js'
import { silentLogger } from './kernel/logger.js'
import { noMetrics } from './kernel/metrics/metrics.js'
import type { Claimed, WorkSource } from './kernel/work/source.js'
import { type DefinedProcess, definedProcess } from './processes/define.js'
import { inboxSource } from './processes/inbox.js'
import { defineProcess } from './processes/index.js'
import { replySource } from './processes/replies/source.js'
import { processSource } from './processes/source.js'
import { defineWorkflow } from './workflows/index.js'
import { stepSource } from './workflows/source.js'

/**
 * What every source of work promises (K-01, K-03, K-26), whatever its table: the same cases for all of them.
 */

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

interface Sample {
  readonly source: WorkSource<Claimed>
  readonly lanes: readonly string[]
  /** The items as claims name them, in the order in which they were made. */
  readonly ids: readonly string[]
  /** Sets when an item is due, in minutes before now, whether it is leased or not. */
  readonly due: (id: string, minutesAgo: number) => Promise<void>
  /** Its table and the condition by which an item is found there, `$1` being its id. */
  readonly table: string
  readonly where: string
}

const COUNT = 4
const some = <T>(make: (place: number) => Promise<T>) => Promise.all(Array.from({ length: COUNT }, (_, n) => make(n)))
const ago = `holdfast.now() - $2 * interval '1 minute'`

async function commands(): Promise<Sample> {
  const Do = defineCommand('sampled', 'Do')
  const queue = 'sampled__commands'
  await bus.hf.sendMany(
    Do,
    Array.from({ length: COUNT }, () => ({ data: null })),
  )
  const rows = await bus.sql<{ id: string }>(`select msg_id::text as id from pgmq.q_${queue} order by msg_id`)
  const types = () => ['Do']
  return {
    source: commandSource(bus.db, { domain: 'sampled', queue, types, metrics: noMetrics, logger: silentLogger }),
    lanes: ['Do'],
    ids: rows.map(({ id }) => id),
    due: async (id, minutes) =>
      void (await bus.sql(`update pgmq.q_${queue} set vt = ${ago} where msg_id = $1`, [id, minutes])),
    table: `pgmq.q_${queue}`,
    where: 'msg_id = $1',
  }
}

const processSample = (type: string, concurrency?: number) => async (): Promise<Sample> => {
  const options = concurrency === undefined ? {} : { concurrency }
  const Do = defineProcess('sampled', type, { state: z.any(), execute: async () => undefined, ...options })
  const started = await some(() => bus.hf.start(Do, {}, { immediate: false }))
  await bus.sql(
    `insert into holdfast.worker_definition (model, name, version, worker, lease_ms, seen_at)
     values ('processes', $1, 1, 'w', 60000, holdfast.now())`,
    [Do.name],
  )
  return {
    source: processSource(bus.db, () => [Do]),
    lanes: [`sampled/${type}@1`],
    ids: started.map(({ id }) => id),
    due: async (id, minutes) =>
      void (await bus.sql(`update holdfast.process set due_at = ${ago} where id = $1`, [id, minutes])),
    table: 'holdfast.process',
    where: 'id = $1',
  }
}

async function workflows(): Promise<Sample> {
  const Do = defineWorkflow('test', 'sampled').step('a', 'sampled').build()
  const started = await some(() => bus.hf.start(Do, null))
  return {
    source: stepSource(bus.db, {
      worker: 'w',
      handlers: () => ['sampled'],
      leaseMs: 60_000,
      calledOff: async () => undefined,
    }),
    lanes: ['sampled'],
    ids: started.map(({ id }) => `${id}/0`),
    // Among steps of one priority the one that has waited longest is the first.
    due: async (id, minutes) =>
      void (await bus.sql(
        `update holdfast.workflow_step
         set due_at = ${ago}, scheduled_at = ${ago}, rank = holdfast.workflow_rank(${ago}, priority, aging)
         where workflow_id = $1`,
        [id.slice(0, 36), minutes],
      )),
    table: 'holdfast.workflow_step',
    where: 'workflow_id = left($1::text, 36)::uuid',
  }
}

async function inbox(): Promise<Sample> {
  const Do = defineProcess('sampled', 'Answered', { state: z.any(), execute: async () => undefined })
  const rows = await bus.sql<{ id: string }>(
    `insert into holdfast.process_inbox (id, type, process_ref, name, response_id, checked, created_at, due_at)
     select gen_random_uuid(), 'sampled/Answered', 'x' || n, 'go', n::text, true, holdfast.now(), holdfast.now()
     from generate_series(1, ${COUNT}) as n
     returning id`,
  )
  return {
    source: inboxSource(bus.db, () => [definedProcess(Do) as DefinedProcess]),
    lanes: [Do.name],
    ids: rows.map(({ id }) => id),
    due: async (id, minutes) =>
      void (await bus.sql(`update holdfast.process_inbox set due_at = ${ago} where id = $1`, [id, minutes])),
    table: 'holdfast.process_inbox',
    where: 'id = $1',
  }
}

async function replies(): Promise<Sample> {
  const Do = defineProcess('replied', 'Do', { state: z.any(), execute: async () => undefined })
  const queue = 'replied__process_replies'
  await bus.hf.queues.create(queue)
  const { id: process } = await bus.hf.start(Do, {}, { immediate: false })
  const rows = await bus.sql<{ id: string }>(
    `select pgmq.send($1, jsonb_build_object('command_id', gen_random_uuid(), 'correlation_id', $2::text,
       'outcome', 'SUCCESS', 'final', true))::text as id
     from generate_series(1, ${COUNT})`,
    [queue, process],
  )
  return {
    source: replySource(bus.db, { domain: 'replied', queue, logger: silentLogger, metrics: noMetrics }),
    lanes: ['replied'],
    ids: rows.map(({ id }) => id),
    due: async (id, minutes) =>
      void (await bus.sql(`update pgmq.q_${queue} set vt = ${ago} where msg_id = $1`, [id, minutes])),
    table: `pgmq.q_${queue}`,
    where: 'msg_id = $1',
  }
}

async function chores(): Promise<Sample> {
  const names = Array.from({ length: COUNT }, (_, n) => `sampled ${n}`)
  await bus.sql(
    `insert into holdfast.chore (name, every, due_at) select unnest($1::text[]), interval '1 day', holdfast.now()`,
    [names],
  )
  return {
    source: choreSource(bus.db, Object.fromEntries(names.map((name) => [name, async () => undefined]))),
    lanes: names,
    ids: names,
    due: async (id, minutes) =>
      void (await bus.sql(`update holdfast.chore set due_at = ${ago} where name = $1`, [id, minutes])),
    table: 'holdfast.chore',
    where: 'name = $1',
  }
}

async function cycles(): Promise<Sample> {
  const names = Array.from({ length: COUNT }, (_, n) => `sampled/${n}`)
  for (const name of names) await bus.sql(`select holdfast.note_dispatch($1, 'PROCESS', '{}'::jsonb)`, [name])
  return {
    source: cycleSource(bus.db, () => names),
    lanes: names,
    ids: names,
    due: async (id, minutes) =>
      void (await bus.sql(`update holdfast.dispatch_cycle set due_at = ${ago} where item_type = $1`, [id, minutes])),
    table: 'holdfast.dispatch_cycle',
    where: 'item_type = $1',
  }
}

/** Each with what pauses it: responses are recorded, chores run and cycles look at their items whatever is paused. */
const samples: readonly (readonly [string, () => Promise<Sample>, string | null])[] = [
  ['commands', commands, 'domain:sampled'],
  ['processes', processSample('Free'), 'definition:sampled/Free'],
  ['processes with a limit', processSample('Limited', 100), 'domain:sampled'],
  ['steps of workflows', workflows, 'definition:test/sampled'],
  ['responses in the inbox', inbox, null],
  ['replies', replies, 'domain:replied'],
  ['chores', chores, null],
  ['cycles of dispatch', cycles, null],
]

const request = { worker: 'w', limit: 1, leaseMs: 60_000, spareLeased: false, ceilingMs: 1_000 }

describe.each(samples)('%s', (model, make, pausedBy) => {
  let sample: Sample
  const claim = async (over: Partial<typeof request> = {}) => {
    const lanes = sample.lanes.map((type) => ({ type, from: null }))
    return (await sample.source.claim({ ...request, lanes, ...over })).items
  }
  beforeAll(async () => {
    sample = await make()
    for (const id of sample.ids) await sample.due(id, 5)
  })

  const plain = (items: readonly Claimed[]) => items.map(({ id }) => id.replace('?', '')).toSorted()
  const all = () => [...sample.ids].toSorted()
  /** Claims everything, does something with it, and gives it back. */
  const withAll = async (work: (items: readonly Claimed[]) => Promise<void>) => {
    const items = await claim({ limit: 10 })
    expect(plain(items)).toEqual(all())
    await work(items)
    await sample.source.release(items)
  }
  /** Another program's transaction, which ends when the work has. */
  const beside = async (begin: string, params: readonly unknown[], work: () => Promise<void>) => {
    const client = new pg.Client({ connectionString: bus.connectionString })
    await client.connect()
    try {
      await client.query('begin isolation level repeatable read')
      await client.query(begin, [...params])
      await work()
    } finally {
      await client.end()
    }
  }

  test('K-01 a released item is due at once, and its claim does not count as lost', async () => {
    await withAll(async (items) => {
      expect(await claim({ limit: 10 })).toEqual([])
      await sample.source.release(items)
      const again = await claim({ limit: 10 })
      expect(plain(again)).toEqual(all())
      expect(again.filter(({ lost }) => lost)).toEqual([])
      // A message that was given back has been read as often as before, so the two claims of it have one epoch.
      if (!sample.table.startsWith('pgmq')) {
        await sample.source.release(items)
        expect(await claim({ limit: 10 })).toEqual([])
        const { extended, lost } = await sample.source.extend(items, 60_000)
        expect({ extended, lost: lost.toSorted() }).toEqual({
          extended: [],
          lost: items.map(({ id }) => id).toSorted(),
        })
      }
      await sample.source.release(again)
    })
  })

  test('K-05 a row locked by another transaction is skipped, neither extended nor lost, and nothing waits for it', async () => {
    const [first = '', ...others] = sample.ids
    const lock = `select from ${sample.table} where ${sample.where} for update`
    await beside(lock, [first], async () => {
      const items = await claim({ limit: 10 })
      expect(plain(items)).toEqual(others.toSorted())
      await sample.source.release(items)
    })
    await withAll(async (items) => {
      await beside(lock, [first], async () => {
        const { extended, lost } = await sample.source.extend(items, 60_000)
        expect(extended.map((id) => id.replace('?', '')).toSorted()).toEqual(others.toSorted())
        expect(lost).toEqual([])
        await sample.source.release(items)
      })
      // What was held is still leased, by the same claim; the others are due.
      const again = await claim({ limit: 10 })
      expect(plain(again)).toEqual(others.toSorted())
      await sample.source.release(again)
    })
  })

  test('K-05 heartbeats in any order never deadlock', async () => {
    await withAll(async (items) => {
      const orders = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? items : items.toReversed()))
      const beats = await Promise.all(orders.map((order) => sample.source.extend(order, 60_000)))
      expect(beats.flatMap(({ lost }) => lost)).toEqual([])
      const { extended } = await sample.source.extend(items, 60_000)
      expect(extended.toSorted()).toEqual(items.map(({ id }) => id).toSorted())
    })
  })

  test.skipIf(pausedBy === null)(
    'K-18 what is paused is not claimed, and stays as it was until it is resumed',
    async () => {
      const epochs = async () => {
        const column = sample.table.startsWith('pgmq') ? 'read_ct' : 'lease_epoch'
        const key = sample.where.slice(0, sample.where.indexOf(' '))
        return bus.sql(`select ${key}, ${column} from ${sample.table} order by 1`)
      }
      const before = await epochs()
      await bus.sql(
        `insert into holdfast.pause (subject, paused_at, actor, reason) values ($1, holdfast.now(), 'ann', 'test')`,
        [pausedBy],
      )
      for (const spareLeased of [false, true, false]) expect(await claim({ limit: 10, spareLeased })).toEqual([])
      expect(await epochs()).toEqual(before)
      await bus.sql('delete from holdfast.pause')
      await withAll(async () => undefined)
    },
  )

  test('K-17 an old snapshot of another transaction does not slow claims down', async () => {
    await beside(`select count(*) from ${sample.table}`, [], async () => {
      for (let round = 0; round < 3; round += 1) {
        await withAll(async (items) => {
          expect((await sample.source.extend(items, 60_000)).lost).toEqual([])
        })
      }
    })
  })

  // The age of a cycle is that of the oldest item, which dispatch's own tests have.
  test.skipIf(model === 'cycles of dispatch')('K-08 the age of the oldest is that of what is due', async () => {
    const [first = ''] = sample.ids
    await withAll(async () => {
      expect(await sample.source.oldestDueSeconds()).toBeNull()
    })
    await sample.due(first, 30)
    expect(await sample.source.oldestDueSeconds()).toBeGreaterThan(29 * 60)
    expect(await sample.source.oldestDueSeconds()).toBeLessThan(31 * 60)
  })

  test('K-01 the one that has been due longest is claimed first', async () => {
    const { ids, due } = sample
    // In an order that is neither that of their making nor its reverse.
    const oldestFirst = [ids[2], ids[0], ids[3], ids[1]].map((id) => id ?? '')
    for (const [place, id] of oldestFirst.entries()) await due(id, 10 - place)
    const claimed: string[] = []
    for (let place = 0; place < COUNT; place += 1) claimed.push(...(await claim()).map(({ id }) => id))
    expect(claimed.map((id) => id.replace('?', ''))).toEqual(oldestFirst)
    expect(await claim({ limit: 10 })).toEqual([])
  })

  test('K-03 expired leases are left alone when the caller asks for it, and otherwise claimed, as lost claims where user code is called', async () => {
    const { ids, due, source } = sample
    const [first = ''] = ids
    await due(first, 1)
    expect(await claim({ spareLeased: true })).toEqual([])
    const [item] = await claim()
    expect(item?.id.replace('?', '')).toBe(first)
    if (source.losses) expect(item?.lost).toMatchObject({ alone: 0, shared: 1, interrupted: false })
    else expect(item?.lost).toBeUndefined()
    expect(await claim({ limit: 10 })).toEqual([])
  })

  test('K-02 a lease is extended by its own epoch only', async () => {
    const { ids, due, source } = sample
    const [, second = ''] = ids
    await due(second, 1)
    const [item] = await claim()
    if (!item) throw new Error('nothing was claimed')
    const before = { ...item, epoch: item.epoch - 1 }
    expect(await source.extend([before], 60_000)).toEqual({ extended: [], lost: [item.id] })
    expect(await source.extend([item], 60_000)).toEqual({ extended: [item.id], lost: [] })
  })

  test('K-26 work that a stop has interrupted is due when its code has ended, and no crash is counted', async () => {
    const { ids, due, source } = sample
    if (!source.losses) return expect(source.losses).toBeUndefined()
    const [, , third = ''] = ids
    await due(third, 1)
    const [item] = await claim()
    if (!item) throw new Error('nothing was claimed')
    await source.losses.interrupted([item])
    expect(await claim()).toEqual([])
    await source.losses.expire([item])
    const [again] = await claim()
    expect(again).toMatchObject({ epoch: item.epoch + 1, lost: { alone: 0, interrupted: true, counted: false } })
  })

  test('K-26 only a loss while the item ran alone counts as its crash', async () => {
    const { ids, due, source } = sample
    if (!source.losses) return expect(source.losses).toBeUndefined()
    const [, , , fourth = ''] = ids
    const lose = async (company: 'alone' | 'begun' | undefined) => {
      await due(fourth, 1)
      const [item] = await claim()
      if (!item) throw new Error('nothing was claimed')
      if (company) await source.losses?.begun(item, company)
      return item.lost
    }
    expect(await lose('begun')).toMatchObject({ alone: 0, counted: false })
    expect(await lose('alone')).toMatchObject({ alone: 0, counted: false, firstToTry: true })
    expect(await lose(undefined)).toMatchObject({ alone: 1, counted: true, firstToTry: true })
    // Claimed by a worker that died before it began.
    expect(await lose('alone')).toMatchObject({ alone: 1, counted: false, firstToTry: false })
    expect(await lose('begun')).toMatchObject({ alone: 2, counted: true })
  })
})
