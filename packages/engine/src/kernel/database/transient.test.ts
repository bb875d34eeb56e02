import { expect, test } from 'vitest'
import { HoldfastError } from '../errors.js'
import { breaksConnection, isTransient, markNotApplied, outcomeUnknown } from './transient.js'

interface Case {
  readonly message?: string
  readonly code?: string
  readonly severity?: 'ERROR' | 'FATAL'
}

const errorOf = ({ message = 'some message', ...rest }: Case) => Object.assign(new Error(message), rest)

const fatal = (code: string): Case => ({ code, severity: 'FATAL' })
const error = (code: string, message?: string): Case => ({ code, severity: 'ERROR', ...(message ? { message } : {}) })

/** What happened, is it worth another try, may it have been applied, is the connection gone. */
const CASES: [string, Case, { again: boolean; unknown: boolean; breaks: boolean }][] = [
  ['serialization failure', error('40001'), { again: true, unknown: false, breaks: false }],
  ['deadlock', error('40P01'), { again: true, unknown: false, breaks: false }],
  ['lock timeout', error('55P03'), { again: true, unknown: false, breaks: false }],
  ['statement timeout', error('57014'), { again: true, unknown: false, breaks: false }],
  ['read-only after a failover', error('25006'), { again: true, unknown: false, breaks: false }],
  ['disk full', error('53100'), { again: true, unknown: false, breaks: false }],
  ['too many connections', fatal('53300'), { again: true, unknown: false, breaks: true }],
  ['idle in transaction too long', fatal('25P03'), { again: true, unknown: false, breaks: true }],
  ['idle session too long', fatal('57P05'), { again: true, unknown: false, breaks: true }],
  ['the server is starting up', fatal('57P03'), { again: true, unknown: false, breaks: true }],
  ['the backend was terminated', fatal('57P01'), { again: true, unknown: true, breaks: true }],
  ['another backend crashed', fatal('57P02'), { again: true, unknown: true, breaks: true }],
  ['the database was dropped', fatal('57P04'), { again: true, unknown: false, breaks: true }],
  ['connection failure', fatal('08006'), { again: true, unknown: true, breaks: true }],
  ['connection rejected', fatal('08004'), { again: true, unknown: false, breaks: true }],
  ['a lost server reported by a vendor', fatal('XX000'), { again: true, unknown: true, breaks: true }],
  ['refused', { code: 'ECONNREFUSED' }, { again: true, unknown: false, breaks: true }],
  ['reset', { code: 'ECONNRESET' }, { again: true, unknown: true, breaks: true }],
  ['broken pipe', { code: 'EPIPE' }, { again: true, unknown: true, breaks: true }],
  ['no answer', { code: 'ETIMEDOUT' }, { again: true, unknown: true, breaks: true }],
  ['unknown host', { code: 'ENOTFOUND' }, { again: true, unknown: false, breaks: true }],
  ['resolver down', { code: 'EAI_AGAIN' }, { again: true, unknown: false, breaks: true }],
  ['socket closed', { message: 'Connection terminated unexpectedly' }, { again: true, unknown: true, breaks: true }],
  ['our time limit', { message: 'Query read timeout' }, { again: true, unknown: true, breaks: true }],
  [
    'pool exhausted',
    { message: 'timeout exceeded when trying to connect' },
    { again: true, unknown: false, breaks: true },
  ],
  [
    'connecting took too long',
    { message: 'Connection terminated due to connection timeout' },
    { again: true, unknown: false, breaks: true },
  ],
  [
    'broken before it was sent',
    { message: 'Client has encountered a connection error and is not queryable' },
    { again: true, unknown: false, breaks: true },
  ],
  ['PgBouncer lost its server', error('08P01', 'server conn crashed?'), { again: true, unknown: true, breaks: true }],
  ['PgBouncer is full', error('08P01', 'query_wait_timeout'), { again: true, unknown: false, breaks: true }],
  ['PgBouncer cannot log on', fatal('08P01'), { again: false, unknown: false, breaks: true }],
  ['statement unknown behind a pooler', error('26000'), { again: true, unknown: false, breaks: false }],
  ['statement known already', error('42P05'), { again: true, unknown: false, breaks: false }],
  [
    "another statement's parameters",
    error('08P01', 'bind message supplies 1 parameters, but prepared statement "x" requires 2'),
    { again: true, unknown: false, breaks: false },
  ],
  [
    'outdated plan',
    error('0A000', 'cached plan must not change result type'),
    { again: true, unknown: false, breaks: false },
  ],
  ['feature not supported', error('0A000'), { again: false, unknown: false, breaks: false }],
  ['duplicate key', error('23505'), { again: false, unknown: false, breaks: false }],
  ['syntax error', error('42601'), { again: false, unknown: false, breaks: false }],
  ['no rights', error('42501'), { again: false, unknown: false, breaks: false }],
  ['wrong password', fatal('28P01'), { again: false, unknown: false, breaks: true }],
  ['internal error', error('XX000'), { again: false, unknown: false, breaks: false }],
  ["somebody's own code", { code: 'toString' }, { again: false, unknown: false, breaks: true }],
]

test.each(CASES)('K-11 %s', (_, given, { again, unknown, breaks }) => {
  const thrown = errorOf(given)
  expect({ again: isTransient(thrown), unknown: outcomeUnknown(thrown), breaks: breaksConnection(thrown) }).toEqual({
    again,
    unknown,
    breaks,
  })
})

test('K-11 a value that is not an error is not transient', () => {
  expect([undefined, null, 'ECONNRESET', { code: 'ECONNRESET' }].map(isTransient)).toEqual([false, false, false, false])
})

test('K-11 an error of several addresses is transient if one of them is', () => {
  const refused = errorOf({ code: 'ECONNREFUSED' })
  expect(isTransient(new AggregateError([new Error('no'), refused]))).toBe(true)
  expect(isTransient(new AggregateError([new Error('no')]))).toBe(false)
})

test('K-11 our own errors say what their cause says', () => {
  const down = (cause: Error) => new HoldfastError('HF_DATABASE_UNREACHABLE', { target: 't', problem: 'p' }, { cause })
  expect(isTransient(down(errorOf({ code: 'ECONNREFUSED' })))).toBe(true)
  expect(isTransient(down(errorOf(fatal('28P01'))))).toBe(false)
  expect(outcomeUnknown(down(errorOf({ code: 'ECONNRESET' })))).toBe(false)
  expect(outcomeUnknown(new HoldfastError('HF_OUTCOME_UNKNOWN', { operation: 'o', problem: 'p' }))).toBe(true)
})

test('K-11 a transaction that never reached its commit was not applied, whatever broke it', () => {
  const lost = errorOf({ message: 'Connection terminated unexpectedly' })
  markNotApplied(lost)
  expect([isTransient(lost), outcomeUnknown(lost)]).toEqual([true, false])
})
