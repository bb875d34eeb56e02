import { beforeEach, describe, expect, test, vi } from 'vitest'
import { guardedLogger, guardedMetrics } from './guarded-sinks.js'
import { type Logger, silentLogger } from './logger.js'
import { type Metrics, noMetrics } from './metrics/metrics.js'

const labels = { model: 'commands' }
const boom = () => {
  throw new Error('the sink is broken')
}
const later = () => Promise.reject(new Error('the sink is broken later'))
/** What throws as soon as anything of it is read. */
const hostile = new Proxy({}, { get: boom, has: boom, getPrototypeOf: boom })

let told: string[]
let now: number
beforeEach(() => {
  told = []
  now = 1_000
})
const surroundings = { write: (line: string) => void told.push(line), now: () => now }

const metricsOf = (call: () => unknown) =>
  guardedMetrics({ count: call, observe: call, gauge: call } as Metrics, surroundings)
const loggerOf = (call: () => unknown) =>
  guardedLogger({ debug: call, info: call, warn: call, error: call } as Logger, surroundings)

describe('K-16 a metrics sink or a logger that fails', () => {
  test.each([
    ['throws an error', boom, /the sink is broken/],
    [
      'throws what cannot be read',
      () => {
        // oxlint-disable-next-line typescript/only-throw-error -- users throw what they like
        throw hostile
      },
      /threw/,
    ],
    ['returns what cannot be read', () => hostile, /the sink is broken/],
  ])('and %s harms no caller, and is reported on stderr', (_, call, line) => {
    metricsOf(call).count('started', labels)
    metricsOf(call).observe('run_milliseconds', labels, 1)
    metricsOf(call).gauge('in_flight', labels, 1)
    for (const level of ['debug', 'info', 'warn', 'error'] as const) loggerOf(call)[level]({}, 'hello')
    expect(told).toHaveLength(7)
    for (const one of told) expect(one).toMatch(line)
  })

  test('later, in a promise that it returns, leaves no rejection unhandled', async () => {
    metricsOf(later).count('started', labels)
    loggerOf(later).warn({}, 'hello')
    await vi.waitFor(() => expect(told).toHaveLength(2))
    expect(told[0]).toMatch(/metrics.*the sink is broken later/)
    expect(told[1]).toMatch(/logger.*the sink is broken later/)
  })

  test('is reported once a minute, with the number of failures since', () => {
    const metrics = metricsOf(boom)
    for (let n = 0; n < 100; n += 1) metrics.count('started', labels)
    expect(told).toHaveLength(1)
    now += 59_999
    metrics.count('started', labels)
    expect(told).toHaveLength(1)
    now += 1
    metrics.count('started', labels)
    expect(told).toHaveLength(2)
    expect(told[1]).toContain('failures=101')
  })

  test('harms no caller where stderr is broken too', () => {
    const metrics = guardedMetrics({ count: boom, observe: boom, gauge: boom }, { write: boom, now: () => 0 })
    expect(() => metrics.count('started', labels)).not.toThrow()
  })
})

test('K-16 a sink that works gets every call, as a method of its own object', () => {
  const seen: unknown[] = []
  class Sink {
    readonly #seen = seen
    count(...given: unknown[]) {
      this.#seen.push(['count', ...given])
    }
    observe(...given: unknown[]) {
      this.#seen.push(['observe', ...given])
    }
    gauge(...given: unknown[]) {
      this.#seen.push(['gauge', ...given])
    }
    debug(...given: unknown[]) {
      this.#seen.push(['debug', ...given])
    }
    info(...given: unknown[]) {
      this.#seen.push(['info', ...given])
    }
    warn(...given: unknown[]) {
      this.#seen.push(['warn', ...given])
    }
    error(...given: unknown[]) {
      this.#seen.push(['error', ...given])
    }
  }
  const metrics = guardedMetrics(new Sink(), surroundings)
  const logger = guardedLogger(new Sink(), surroundings)
  metrics.count('started', labels, 2)
  metrics.count('started', labels)
  metrics.observe('run_milliseconds', labels, 3)
  metrics.gauge('in_flight', labels, 4)
  for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]({ level }, 'hello')
  expect(seen).toEqual([
    ['count', 'started', labels, 2],
    ['count', 'started', labels, undefined],
    ['observe', 'run_milliseconds', labels, 3],
    ['gauge', 'in_flight', labels, 4],
    ...['debug', 'info', 'warn', 'error'].map((level) => [level, { level }, 'hello']),
  ])
  expect(told).toEqual([])
})

test('K-16 an installation without metrics is recognised', () => {
  expect(guardedMetrics(noMetrics)).toBe(noMetrics)
  expect(guardedLogger(silentLogger)).toBe(silentLogger)
})
