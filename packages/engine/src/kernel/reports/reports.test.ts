import { describe, expect, it } from 'vitest'
import type { Logger } from '../logger.js'
import { type MetricLabels, noMetrics } from '../metrics/metrics.js'
import { formatLine } from '../stderr-logger.js'
import { createReports } from './reports.js'

function recording() {
  const lines: [string, object, string][] = []
  const counts: [string, MetricLabels, number][] = []
  const log = (level: string) => (fields: object, message: string) => void lines.push([level, fields, message])
  const logger: Logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  const metrics = {
    count: (name: string, labels: MetricLabels, by = 1) => void counts.push([name, labels, by]),
    observe: (name: string, labels: MetricLabels, value: number) => void counts.push([name, labels, value]),
    gauge() {},
  }
  return { lines, counts, reports: createReports({ logger, metrics }), logger }
}

const what = { model: 'processes', domain: 'payments', type: 'Payment' } as const
const labels = { model: 'processes', domain: 'payments', type: 'Payment' }
const item = { ...what, id: 'i1', key: 'PAY-1', step: 'book', attempt: 2 }
const failure = { code: 'INTERNAL_ERROR', message: 'socket hang up\nand more', stack: 'at book (bank.ts:1:1)' }

describe('createReports', () => {
  it('K-21 an attempt that failed is a warning with all fields, and one count by model, domain and type', () => {
    const { reports, lines, counts } = recording()
    reports.attemptFailed(item, failure, { retryInMs: 1000.4 })
    const { message, ...rest } = failure
    const fields = { event: 'attempt_failed', ...item, ...rest, error: message, retryInMs: 1000 }
    expect(lines).toEqual([['warn', fields, 'attempt 2 of book of payments/Payment failed: socket hang up']])
    expect(counts).toEqual([['attempts_failed', labels, 1]])
  })

  it('K-21 what needs a person is an error, and one count', () => {
    const { reports, lines, counts } = recording()
    reports.needsPerson({ ...item, attempt: undefined }, { ...failure, code: 'RETRIES_EXHAUSTED' })
    expect(lines).toHaveLength(1)
    expect(lines[0]?.[0]).toBe('error')
    expect(lines[0]?.[1]).toMatchObject({ event: 'needs_person', code: 'RETRIES_EXHAUSTED', id: 'i1', key: 'PAY-1' })
    expect(lines[0]?.[2]).toBe('book of payments/Payment needs a person (RETRIES_EXHAUSTED): socket hang up')
    expect(counts).toEqual([['needs_person', labels, 1]])
  })

  it('K-21 ends are counted with their times and not logged; labels never hold an id', () => {
    const { reports, lines, counts } = recording()
    reports.started(what)
    reports.ended(item, 'completed', { queueMs: -3, runMs: 5, totalMs: 9 })
    expect(lines).toEqual([])
    expect(counts).toEqual([
      ['started', labels, 1],
      ['completed', labels, 1],
      ['queue_milliseconds', labels, 0],
      ['run_milliseconds', labels, 5],
      ['total_milliseconds', labels, 9],
    ])
  })

  it('K-21 failures are logged without metrics too', () => {
    const { logger, lines } = recording()
    const reports = createReports({ logger, metrics: noMetrics })
    reports.needsPerson(item, failure)
    reports.ended(item, 'failed')
    expect(lines.map(([level]) => level)).toEqual(['error'])
  })
})

describe('formatLine', () => {
  it('K-21 a line on stderr is readable: the sentence, the fields, the stack below', () => {
    const fields = { code: 'A', error: 'two words', id: undefined, retryInMs: 5, stack: 'at a\nat b' }
    expect(formatLine(new Date(0), 'WARN ', fields, 'it failed')).toBe(
      '1970-01-01T00:00:00.000Z WARN  holdfast: it failed code=A error="two words" retryInMs=5\n    at a\n    at b',
    )
  })

  it('K-21 an error among the fields shows its message and its stack', () => {
    const error = Object.assign(new Error('gone'), { stack: 'Error: gone\n    at x' })
    expect(formatLine(new Date(0), 'ERROR', { err: error }, 'no')).toBe(
      '1970-01-01T00:00:00.000Z ERROR holdfast: no err=gone\n    Error: gone\n        at x',
    )
  })
})
