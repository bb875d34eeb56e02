import { describe, expect, test } from 'vitest'
import type { Executor } from '../database/executor.js'
import { silentLogger } from '../logger.js'
import { noMetrics } from '../metrics/metrics.js'
import { createDecider, type EventGroup, toWriteAnswer, type WriteAnswer } from './decider.js'

/** A counter per id, in memory instead of a database: events add to it, and a write names the count that it was decided on. */
interface Counter {
  readonly id: string
  readonly count: number
}
interface CounterWrite extends Counter {
  readonly on: number
  readonly token: string
}

const db = {} as Executor
const transient = () => Object.assign(new Error('the connection is gone'), { code: '08006' })

function counters(initial: Record<string, number>) {
  const stored = new Map(Object.entries(initial).map(([id, count]) => [id, { count, token: '' }]))
  const memory = new Map<string, Counter>()
  const writes: CounterWrite[][] = []
  const reads: string[][] = []
  const decisions: (readonly number[])[] = []
  /** Called before and after each write; what it throws is the failure of the statement. */
  const faults: { before?: () => void | Promise<void>; after?: () => void } = {}
  const locked = new Set<string>()

  function decide({ id, count }: Counter, { events, token }: EventGroup<number>) {
    decisions.push([...events])
    let after = count
    const outcomes = events.map((by) => {
      if (by < 0) return { failed: new Error(`${by} is refused at ${after}`) }
      after += by
      return { done: after }
    })
    return after === count ? { outcomes } : { outcomes, write: { id, on: count, count: after, token } }
  }

  function writeOne({ id, on, count, token }: CounterWrite): WriteAnswer {
    if (locked.has(id)) return 'held'
    const row = stored.get(id)
    if (row?.token === token) return 'done'
    if (row?.count !== on) return 'changed'
    stored.set(id, { count, token })
    return 'done'
  }

  const decider = createDecider<number, Counter, CounterWrite, number>(db, {
    name: 'test.write',
    known: ({ id }) => memory.get(id),
    async read(_, groups) {
      reads.push(groups.map(({ id }) => id))
      return new Map(
        groups.flatMap(({ id }) => {
          const row = stored.get(id)
          return row ? [[id, { id, count: row.count }]] : []
        }),
      )
    },
    decide,
    async write(_, asked) {
      writes.push([...asked])
      await faults.before?.()
      const answers = asked.map(writeOne)
      faults.after?.()
      return answers
    },
    written: ({ id, count }) => memory.set(id, { id, count }),
    missing: (id) => ({ failed: new Error(`${id} does not exist`) }),
    logger: silentLogger,
    metrics: noMetrics,
  })
  return { decider, stored, memory, writes, reads, decisions, faults, locked }
}

const once = (what: () => void) => {
  let done = false
  return () => {
    if (done) return
    done = true
    what()
  }
}

describe('decisions', () => {
  test('K-05 events of one instance are decided in their order and share a write; those of many share a statement', async () => {
    const { decider, writes, reads } = counters({ b: 10, a: 0 })
    const results = await Promise.all([decider.apply('b', 1), decider.apply('a', 5), decider.apply('b', 2)])
    expect(results).toEqual([11, 5, 13])
    expect(reads).toEqual([['a', 'b']])
    expect(writes.map((all) => all.map(({ id, count }) => [id, count]))).toEqual([
      [
        ['a', 5],
        ['b', 13],
      ],
    ])
  })

  test('K-05 what comes during a write is decided together after it, on the state that it left', async () => {
    const { decider, faults, decisions, reads } = counters({ a: 0 })
    const late: Promise<number>[] = []
    faults.before = once(() => late.push(decider.apply('a', 2), decider.apply('a', 3)))
    expect(await decider.apply('a', 1)).toBe(1)
    expect(await Promise.all(late)).toEqual([3, 6])
    expect([decisions, reads]).toEqual([[[1], [2, 3]], [['a']]])
  })

  test('an instance that has changed meanwhile is read and decided again', async () => {
    const { decider, stored, memory, reads, writes } = counters({ a: 7 })
    memory.set('a', { id: 'a', count: 1 })
    expect(await decider.apply('a', 1)).toBe(8)
    expect([reads, writes.map(([write]) => write?.on)]).toEqual([[['a']], [1, 7]])
    expect(stored.get('a')?.count).toBe(8)
  })

  test('one that other workers change first again and again is left alone for a moment, and written in the end', async () => {
    const { decider, stored, faults, writes } = counters({ a: 0 })
    faults.before = () => {
      if (writes.length <= 12) stored.set('a', { count: 100 * writes.length, token: 'of another worker' })
    }
    expect(await decider.apply('a', 1)).toBe(1201)
    expect(writes).toHaveLength(13)
  })

  test('a refused event leaves the others alone', async () => {
    const { decider } = counters({ a: 1 })
    const [first, refused, last] = await Promise.allSettled([1, -1, 2].map((by) => decider.apply('a', by)))
    expect([first, last]).toMatchObject([{ value: 2 }, { value: 4 }])
    expect(refused).toMatchObject({ status: 'rejected', reason: { message: '-1 is refused at 2' } })
  })

  test('what is refused, or changes nothing, by a state from memory is decided on the state that is read', async () => {
    const { decider, memory, reads, writes } = counters({ a: 5, b: 6 })
    memory.set('a', { id: 'a', count: 1 })
    memory.set('b', { id: 'b', count: 2 })
    const [refused, nothing] = await Promise.allSettled([decider.apply('a', -1), decider.apply('b', 0)])
    expect(refused).toMatchObject({ reason: { message: '-1 is refused at 5' } })
    expect(nothing).toMatchObject({ value: 6 })
    expect([reads, writes]).toEqual([[['a', 'b']], []])
  })

  test('an event of an instance that does not exist is refused', async () => {
    await expect(counters({}).decider.apply('a', 1)).rejects.toThrow('a does not exist')
  })

  test('K-05 a locked instance is written later, and others are not delayed', async () => {
    const { decider, locked, decisions } = counters({ a: 0, b: 0 })
    locked.add('a')
    const waiting = decider.apply('a', 1)
    expect(await decider.apply('b', 1)).toBe(1)
    locked.delete('a')
    expect(await waiting).toBe(1)
    expect(decisions.filter((events) => events.length === 1)).toHaveLength(2)
  })

  test('K-23 events with more bytes than a statement should have are decided apart', async () => {
    const large = 'x'.repeat(600_000)
    const sizes: number[] = []
    const decider = createDecider<string, number, number, void>(db, {
      name: 'test.write',
      known: () => 0,
      read: async () => new Map(),
      decide: (_, { events }) => ({ outcomes: events.map(() => ({ done: undefined })), write: events.length }),
      async write(_, asked) {
        sizes.push(...asked)
        return asked.map(() => 'done')
      },
      written: () => undefined,
      missing: () => ({ done: undefined }),
      logger: silentLogger,
      metrics: noMetrics,
    })
    await Promise.all([decider.apply('a', large), decider.apply('a', 'small'), decider.apply('a', large)])
    expect(sizes).toEqual([2, 1])
  })
})

describe('lost results', () => {
  test('K-05 a write whose result is lost is repeated as it was, and takes effect once', async () => {
    const { decider, faults, writes, decisions, stored } = counters({ a: 0 })
    faults.after = once(() => {
      throw transient()
    })
    expect(await Promise.all([decider.apply('a', 1), decider.apply('a', 2)])).toEqual([1, 3])
    expect(writes[1]).toEqual(writes[0])
    expect([writes.length, decisions.length, stored.get('a')?.count]).toEqual([2, 1, 3])
  })

  test('K-05 the same where the write was decided a second time', async () => {
    const { decider, faults, memory, stored, writes } = counters({ a: 7 })
    memory.set('a', { id: 'a', count: 1 })
    faults.after = () => {
      if (writes.length === 2) throw transient()
    }
    expect(await decider.apply('a', 1)).toBe(8)
    expect([writes.map(([write]) => write?.on), stored.get('a')?.count]).toEqual([[1, 7, 7], 8])
  })

  test('K-05 an error of one instance fails its own events only', async () => {
    const { decider, faults, writes } = counters({ a: 0, b: 0, c: 0 })
    faults.before = () => {
      if (writes.at(-1)?.some(({ id }) => id === 'b')) throw Object.assign(new Error('invalid'), { code: '22P02' })
    }
    const results = await Promise.allSettled(['a', 'b', 'c'].map((id) => decider.apply(id, 1)))
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    faults.before = () => undefined
    expect(await decider.apply('b', 1)).toBe(1)
  })
})

describe('in a transaction of the caller', () => {
  test('decides on the state that is read, and remembers nothing', async () => {
    const { decider, memory, reads } = counters({ a: 7 })
    memory.set('a', { id: 'a', count: 1 })
    expect(await decider.applyWithin(db, 'a', 1)).toBe(8)
    expect([reads, memory.get('a')?.count]).toEqual([[['a']], 1])
  })

  test('says where nothing was written, and throws what refuses the event', async () => {
    const { decider, locked } = counters({ a: 7 })
    locked.add('a')
    expect(await decider.applyWithin(db, 'a', 1)).toBeUndefined()
    await expect(decider.applyWithin(db, 'a', -1)).rejects.toThrow('-1 is refused at 7')
  })
})

test('K-05 closing settles what was accepted, and refuses what comes after', async () => {
  const { decider } = counters({ a: 0 })
  const accepted = decider.apply('a', 1)
  await Promise.all([expect(accepted).resolves.toBe(1), decider.close()])
  const refused = await Promise.allSettled([decider.apply('a', 1), decider.apply('a', 2)])
  expect(refused).toMatchObject([{ reason: { code: 'HF_STOPPED' } }, { reason: { code: 'HF_STOPPED' } }])
})

test('the codes of the SQL functions', () => {
  expect([0, 1, 2, 3, undefined].map(toWriteAnswer)).toEqual(['done', 'changed', 'held', 'changed', 'changed'])
})
