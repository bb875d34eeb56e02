import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLogger } from '../logger.js'
import { notFound, workOf } from '../model/work.js'
import type { Listener } from '../notify/listener.js'
import { createMissingWorkers } from './presence.js'
import { createResults, type ResultSource } from './results.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Things that have ended or not, how often they were looked for, and notifications. */
function staged() {
  const ended = new Map<string, string>()
  const asked: (readonly string[])[] = []
  const wakes = new Set<() => void>()
  let trouble: Error | undefined
  const source: ResultSource<string> = {
    model: 'commands',
    async find(keys) {
      asked.push(keys)
      if (trouble) throw trouble
      return new Map(keys.map((key) => [key, ended.get(key) ?? 'PENDING']))
    },
    settle: (found) => (found === 'PENDING' ? undefined : { value: found }),
    unknown: (key) => notFound('commands', 'a/Thing', key),
    why: async (status) => ({ work: workOf('commands', 'a/Thing', 'a'), status, why: 'It waits for b.' }),
  }
  let listeners = 0
  const listener: Listener = {
    subscribe(_topic, wake) {
      wakes.add(wake)
      return () => void wakes.delete(wake)
    },
    isListening: true,
    close: async () => undefined,
  }
  const statements: string[] = []
  const db = {
    async run<Row>({ name }: { name: string }): Promise<Row[]> {
      statements.push(name)
      return []
    },
  }
  const results = createResults(db as never, {
    logger: silentLogger,
    listen() {
      listeners += 1
      return listener
    },
  })
  return {
    source,
    results,
    ended,
    asked,
    statements,
    notify: () => {
      for (const wake of wakes) wake()
    },
    listeners: () => listeners,
    fail: (error: Error | undefined) => {
      trouble = error
    },
  }
}

test('K-22 a thousand waiters for one item are one query per poll', async () => {
  const { source, results, ended, asked } = staged()
  const waiting = Promise.all(Array.from({ length: 1_000 }, () => results.wait(source, 'a', 30_000)))
  await vi.advanceTimersByTimeAsync(5)
  expect(asked).toEqual([['a']])
  ended.set('a', 'done')
  await vi.advanceTimersByTimeAsync(300)
  expect(new Set(await waiting)).toEqual(new Set(['done']))
  expect(asked.length).toBeLessThanOrEqual(30)
  await results.close()
})

test('K-22 waiters for many items share the query', async () => {
  const { source, results, ended, asked } = staged()
  const keys = Array.from({ length: 500 }, (_, n) => `k${n}`)
  const waiting = Promise.all(keys.map((key) => results.wait(source, key, 30_000)))
  for (const key of keys) ended.set(key, key)
  await vi.advanceTimersByTimeAsync(5)
  expect(await waiting).toEqual(keys)
  expect(asked.map((one) => one.length)).toEqual([500])
  await results.close()
})

test('K-22 a longer wait is ended by a notification, and polls only once a second', async () => {
  const { source, results, ended, asked, notify, statements, listeners } = staged()
  const waiting = results.wait(source, 'a', 60_000)
  await vi.advanceTimersByTimeAsync(499)
  expect(listeners()).toBe(0)
  await vi.advanceTimersByTimeAsync(100)
  expect(listeners()).toBe(1)
  expect(statements).toEqual(['results.wait'])
  // Quickly for a second, then once a second.
  await vi.advanceTimersByTimeAsync(2_000)
  const before = asked.length
  await vi.advanceTimersByTimeAsync(12_000)
  expect(asked.length - before).toBeLessThanOrEqual(13)
  expect(asked.length - before).toBeGreaterThanOrEqual(11)
  // It is said again that somebody waits, before the database forgets.
  expect(statements.length).toBeGreaterThanOrEqual(2)
  ended.set('a', 'done')
  notify()
  await vi.advanceTimersByTimeAsync(25)
  expect(await waiting).toBe('done')
  await results.close()
})

test('K-22 a result that cannot be decoded fails its own waiters only', async () => {
  const { source, results, ended } = staged()
  const settle = (found: string) => {
    if (found === 'bad') throw new Error('not decodable')
    return source.settle(found)
  }
  ended.set('a', 'bad').set('b', 'good')
  const bad = expect(results.wait({ ...source, settle }, 'a', 5_000)).rejects.toThrow('not decodable')
  const good = results.wait({ ...source, settle }, 'b', 5_000)
  await vi.advanceTimersByTimeAsync(5)
  await bad
  expect(await good).toBe('good')
  await results.close()
})

test('K-22 a database that restarts is waited for within the time', async () => {
  const { source, results, ended, fail } = staged()
  const waiting = results.wait(source, 'a', 30_000)
  fail(Object.assign(new Error('the database system is starting up'), { code: '57P03' }))
  await vi.advanceTimersByTimeAsync(10_000)
  ended.set('a', 'done')
  fail(undefined)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await waiting).toBe('done')
  await results.close()
})

test('K-22 when the time is over the error says the status and what it waits for', async () => {
  const { source, results } = staged()
  const waiting = expect(results.wait(source, 'a', 5_000)).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    message: expect.stringMatching(/^command a\/Thing a did not end within 5 ?s: it is PENDING\. It waits for b\.$/),
  })
  await vi.advanceTimersByTimeAsync(5_000)
  await waiting
  await results.close()
})

test('K-22 when the time is over and the database is still unreachable, the error says that', async () => {
  const { source, results, fail } = staged()
  fail(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
  const waiting = expect(results.wait(source, 'a', 5_000)).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    message: expect.stringContaining('The database does not respond: connect ECONNREFUSED'),
  })
  await vi.advanceTimersByTimeAsync(5_000)
  await waiting
  await results.close()
})

test('K-22 an end in the last moment is not a timeout', async () => {
  const { source, results, ended, fail } = staged()
  fail(Object.assign(new Error('restarting'), { code: '57P03' }))
  const waiting = results.wait(source, 'a', 5_000)
  await vi.advanceTimersByTimeAsync(4_999)
  ended.set('a', 'done')
  fail(undefined)
  await vi.advanceTimersByTimeAsync(1)
  expect(await waiting).toBe('done')
  await results.close()
})

test('K-22 an error that is not about the database ends the wait at once', async () => {
  const { source, results, fail } = staged()
  fail(new Error('no such column'))
  const waiting = expect(results.wait(source, 'a', 5_000)).rejects.toThrow('no such column')
  await vi.advanceTimersByTimeAsync(5)
  await waiting
  await results.close()
})

test('K-22 closing ends all waits', async () => {
  const { source, results } = staged()
  const waiting = expect(results.wait(source, 'a', 5_000)).rejects.toMatchObject({ code: 'HF_STOPPED' })
  await results.close()
  await waiting
  await expect(results.wait(source, 'a', 5_000)).rejects.toMatchObject({ code: 'HF_STOPPED' })
})

test('K-22 work that no live worker has the code for is reported, at most once per definition and minute', async () => {
  const warned: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warned.push(message) }
  const missing = createMissingWorkers({ logger })
  const asked: string[] = []
  const isLive = async (name: string) => {
    asked.push(name)
    return name === 'a/Live'
  }
  for (let n = 0; n < 100; n += 1) {
    missing.made('commands', 'a/Live', isLive)
    missing.made('commands', 'a/Gone', isLive)
  }
  // Not at once: a worker is often started right after.
  expect(asked).toEqual([])
  await vi.advanceTimersByTimeAsync(3_000)
  expect(asked.toSorted()).toEqual(['a/Gone', 'a/Live'])
  expect(warned).toEqual([
    'no live worker has a/Gone: register its handler with hf.handle and start a worker with hf.run',
  ])
  await vi.advanceTimersByTimeAsync(60_000)
  missing.made('commands', 'a/Gone', isLive)
  await vi.advanceTimersByTimeAsync(3_000)
  expect(warned).toHaveLength(2)
  missing.close()
})
