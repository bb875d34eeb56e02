import { expect, test } from 'vitest'
import { createBatcher } from './batcher.js'
import type { Outcome } from './flusher.js'

interface Write {
  readonly id: string
  readonly value?: string
}

/** A flush that the test lets through one by one, and that notes what it was given. */
function gatedFlush() {
  const flushes: { ids: string[]; answer: (outcomes?: Outcome<string>[]) => void; fail: (error: Error) => void }[] = []
  const flush = (writes: readonly Write[]) =>
    new Promise<Outcome<string>[]>((resolve, reject) => {
      flushes.push({
        ids: writes.map((write) => write.id),
        answer: (outcomes) => resolve(outcomes ?? writes.map((write) => ({ done: write.id }))),
        fail: reject,
      })
    })
  const nth = async (n: number) => {
    for (;;) {
      const found = flushes[n]
      if (found) return found
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  return { flushes, flush, nth }
}

const batcherOn = (flush: (writes: readonly Write[]) => Promise<Outcome<string>[]>, more: object = {}) =>
  createBatcher<Write, string>({ name: 'test.write', key: (write) => write.id, flush, ...more })

const transient = () => Object.assign(new Error('deadlock detected'), { code: '40P01', severity: 'ERROR' })
const dataError = () => Object.assign(new Error('invalid input'), { code: '22P02', severity: 'ERROR' })

test('K-05 with no flush in flight a write goes out at once, with all writes of the same turn', async () => {
  const { flush, nth } = gatedFlush()
  const batcher = batcherOn(flush)
  const results = Promise.all(['b', 'a', 'c'].map((id) => batcher.write({ id })))
  const first = await nth(0)
  expect(first.ids).toEqual(['a', 'b', 'c'])
  first.answer()
  expect(await results).toEqual(['b', 'a', 'c'])
})

test('K-05 writes that arrive during a flush go out together in the next one', async () => {
  const { flush, flushes, nth } = gatedFlush()
  const batcher = batcherOn(flush)
  const one = batcher.write({ id: '1' })
  const first = await nth(0)
  const others = Promise.all(['3', '2'].map((id) => batcher.write({ id })))
  await new Promise((resolve) => setImmediate(resolve))
  expect(flushes).toHaveLength(1)
  first.answer()
  await one
  const second = await nth(1)
  expect(second.ids).toEqual(['2', '3'])
  second.answer()
  await others
})

test('K-05 a second lane opens when more than a hundred writes wait', async () => {
  const { flush, nth } = gatedFlush()
  const batcher = batcherOn(flush)
  const writes = Promise.all(Array.from({ length: 150 }, (_, n) => batcher.write({ id: String(n).padStart(3, '0') })))
  const [first, second] = [await nth(0), await nth(1)]
  expect([first.ids.length, second.ids.length]).toEqual([75, 75])
  second.answer()
  first.answer()
  expect(await writes).toHaveLength(150)
})

test('K-05 two writes of one key never share a flush and keep their order', async () => {
  const { flush, nth } = gatedFlush()
  const batcher = createBatcher<Write, string>({
    name: 'test.write',
    key: (write) => write.id,
    flush: async (writes) => {
      await flush(writes)
      return writes.map((write) => ({ done: write.value ?? '' }))
    },
  })
  const results = Promise.all([
    batcher.write({ id: 'x', value: 'first' }),
    batcher.write({ id: 'x', value: 'second' }),
    batcher.write({ id: 'y', value: 'other' }),
  ])
  const first = await nth(0)
  expect(first.ids).toEqual(['x', 'y'])
  first.answer()
  const second = await nth(1)
  expect(second.ids).toEqual(['x'])
  second.answer()
  expect(await results).toEqual(['first', 'second', 'other'])
})

test('K-05 a row locked by another transaction is retried apart and delays only later writes of the same row', async () => {
  const { flush, nth } = gatedFlush()
  const batcher = batcherOn(flush)
  const held = batcher.write({ id: 'held' })
  const free = batcher.write({ id: 'free' })
  const first = await nth(0)
  first.answer([{ done: 'free' }, 'held'])
  expect(await free).toBe('free')
  const behind = batcher.write({ id: 'held' })
  const meanwhile = batcher.write({ id: 'meanwhile' })
  const next = [await nth(1), await nth(2)]
  expect(next.flatMap(({ ids }) => ids).sort((a, b) => a.localeCompare(b))).toEqual(['held', 'meanwhile'])
  for (const { answer } of next) answer()
  expect(await meanwhile).toBe('meanwhile')
  expect(await held).toBe('held')
  const last = await nth(3)
  expect(last.ids).toEqual(['held'])
  last.answer()
  expect(await behind).toBe('held')
})

test('K-05 a data error fails its own caller only', async () => {
  const seen: number[] = []
  const batcher = batcherOn(async (writes) => {
    seen.push(writes.length)
    if (writes.some((write) => write.id === 'bad')) throw dataError()
    return writes.map((write) => ({ done: write.id }))
  })
  const results = await Promise.allSettled(['a', 'b', 'bad', 'c', 'd'].map((id) => batcher.write({ id })))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  expect(seen[0]).toBe(5)
})

test('K-05 a flush that would wait for a lock is split: the write that needs the lock waits, the others are committed', async () => {
  let locked = true
  const batcher = batcherOn(async (writes) => {
    if (locked && writes.some((write) => write.id === 'locked')) {
      throw Object.assign(new Error('lock timeout'), { code: '55P03', severity: 'ERROR' })
    }
    return writes.map((write) => ({ done: write.id }))
  })
  const waiting = batcher.write({ id: 'locked' })
  expect(await Promise.all(['a', 'b', 'c'].map((id) => batcher.write({ id })))).toEqual(['a', 'b', 'c'])
  expect(batcher.pending).toBe(1)
  locked = false
  expect(await waiting).toBe('locked')
})

test('K-05 a mistake in the statement itself is not searched for in the rows', async () => {
  let flushes = 0
  const batcher = batcherOn(async () => {
    flushes += 1
    throw Object.assign(new Error('relation does not exist'), { code: '42P01', severity: 'ERROR' })
  })
  const results = await Promise.allSettled(['a', 'b', 'c'].map((id) => batcher.write({ id })))
  expect(results.every(({ status }) => status === 'rejected')).toBe(true)
  expect(flushes).toBe(1)
})

test('K-11 a flush that meets a database outage is repeated until it is committed', async () => {
  let flushes = 0
  const batcher = batcherOn(async (writes) => {
    flushes += 1
    if (flushes < 4) throw transient()
    return writes.map((write) => ({ done: write.id }))
  })
  expect(await batcher.write({ id: 'a' })).toBe('a')
  expect(flushes).toBe(4)
})

test('K-11 a caller with a time limit gets an error that says what to do', async () => {
  const batcher = batcherOn(() => Promise.reject(transient()), { giveUpAfter: 40 })
  await expect(batcher.write({ id: 'a' })).rejects.toMatchObject({ code: 'HF_DATABASE_UNAVAILABLE', status: 503 })
  expect(batcher.pending).toBe(0)
})

test('K-05 closing settles accepted writes and refuses later ones', async () => {
  const { flush, nth } = gatedFlush()
  const batcher = batcherOn(flush)
  const accepted = batcher.write({ id: 'a' })
  const closed = batcher.close()
  await expect(batcher.write({ id: 'b' })).rejects.toMatchObject({ code: 'HF_STOPPED' })
  const first = await nth(0)
  first.answer()
  expect(await accepted).toBe('a')
  await closed
})

test('K-05 closing with a time limit rejects what the database never took', async () => {
  const batcher = batcherOn(() => Promise.reject(transient()))
  const stuck = batcher.write({ id: 'a' })
  const [result] = await Promise.allSettled([stuck, batcher.close(30)])
  expect(result).toMatchObject({ status: 'rejected', reason: { code: 'HF_STOPPED' } })
})

test('K-23 a flush that runs into a time limit is halved until it fits', async () => {
  const sizes: number[] = []
  const tooLong = Object.assign(new Error('canceling statement due to statement timeout'), {
    code: '57014',
    severity: 'ERROR',
  })
  const batcher = batcherOn(async (writes) => {
    sizes.push(writes.length)
    if (writes.length > 2) throw sizes.length % 2 === 1 ? tooLong : new Error('Query read timeout')
    return writes.map((write) => ({ done: write.id }))
  })
  const ids = ['1', '2', '3', '4', '5', '6', '7', '8']
  expect(await Promise.all(ids.map((id) => batcher.write({ id })))).toEqual(ids)
  expect(sizes).toEqual([8, 4, 2, 2, 4, 2, 2])
})

test('K-23 a single write that runs into a time limit is repeated', async () => {
  let tries = 0
  const batcher = batcherOn(async (writes) => {
    tries += 1
    if (tries === 1) throw new Error('Query read timeout')
    return writes.map((write) => ({ done: write.id }))
  })
  expect(await batcher.write({ id: '1' })).toBe('1')
  expect(tries).toBe(2)
})

test('K-23 a flush is bounded in bytes, and a larger write goes alone', async () => {
  const flushes: string[][] = []
  const batcher = batcherOn(
    async (writes) => {
      flushes.push(writes.map(({ id }) => id))
      return writes.map((write) => ({ done: write.id }))
    },
    { maxBytes: 1_000 },
  )
  const values: Record<string, number> = { a: 400, b: 400, c: 400, d: 5_000, e: 10 }
  await Promise.all(Object.entries(values).map(([id, size]) => batcher.write({ id, value: 'x'.repeat(size) })))
  expect(flushes).toEqual([['a', 'b'], ['c'], ['d'], ['e']])
})
