import { readFile } from 'node:fs/promises'
import { renderErrorReference, sampleMessage } from '@holdfast/testing/internal'
import { describe, expect, it } from 'vitest'
import { type ErrorCode, type ErrorDetails, errorRegistry, HoldfastError } from './errors.js'
import { wrongStatus } from './model/work.js'

const page = new URL('../../../../docs/reference/errors.md', import.meta.url)

describe('K-14 the registry of errors', () => {
  it.each(Object.entries(errorRegistry))('%s has a message, a status and a next step', (code, entry) => {
    expect(code).toMatch(/^HF_[A-Z]+(_[A-Z]+)*$/)
    expect(entry.status).toBeGreaterThanOrEqual(400)
    expect(entry.status).toBeLessThan(600)
    expect(entry.next).toMatch(/^[A-Z].{10,}[.!]$/)
    const message = sampleMessage(entry.message)
    expect(message.length).toBeGreaterThan(10)
    expect(message).not.toMatch(/undefined|\[object/)
  })

  it('is what the reference page lists; `npm run build && node scripts/error-reference.mjs` renews it', async () => {
    expect(await readFile(page, 'utf8')).toBe(renderErrorReference(errorRegistry))
  })

  it('K-14 the reference page has every code with its next step', async () => {
    const written = await readFile(page, 'utf8')
    for (const [code, { next }] of Object.entries(errorRegistry)) {
      const section = written.split(`## ${code}\n`)[1]?.split('\n## ')[0]
      expect(section, code).toContain(next)
    }
  })

  it('is where every error gets its message, status and next step', () => {
    const cause = new Error('cause')
    const error = new HoldfastError('HF_STOPPED', { what: 'the worker' }, { cause })
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({
      name: 'HoldfastError',
      code: 'HF_STOPPED',
      message: 'the worker is stopped',
      status: 503,
      details: { what: 'the worker' },
      next: errorRegistry.HF_STOPPED.next,
      cause,
    })
  })
})

const definition = { model: 'processes', domain: 'payments', type: 'Payment' } as const
const work = { ...definition, id: 'PAY-1' }
const named = { where: 'run', option: 'poll' }
const problem = 'went wrong'
const operation = 'send risk/Book'
const waited = '5 s'
const batchId = 'b7'
const file = '0012_more.sql'
const calls = '`book`'
const position = 3
const marked = '   ^'
const failed = { status: 'FAILED', code: 'NO_ACCOUNT', message: 'no such account' }

/** Details of every code: a code without them does not compile, nor does one whose details have another type. */
const details: { readonly [Code in ErrorCode]: ErrorDetails<Code> } = {
  HF_INVALID_OPTION: { ...named, problem },
  HF_INVALID_ARGUMENT: { operation, problem },
  HF_UNKNOWN_OPTION: { ...named, nearest: 'lease' },
  HF_INVALID_DURATION: { value: "'5x'", at: 'run', problem },
  HF_INVALID_DATA: { where: operation, path: '$.amount', problem },
  HF_NOT_ENCODABLE: { path: '$.when', problem },
  HF_NOT_DECODABLE: { path: '$.when', problem },
  HF_TOO_LARGE: { bytes: 2_000, limit: 1_000, path: '$.file' },
  HF_INVALID_ACTOR: { operation, missing: 'reason' },
  HF_INVALID_ID: { where: operation, value: "'x'" },
  HF_INVALID_KEY: { where: operation, problem },
  HF_INVALID_QUEUE_NAME: { name: 'Q', problem },
  HF_INVALID_WORKFLOW: { workflow: 'shop/order', step: 'charge', problem },
  HF_INVALID_WORKFLOW_FILE: { path: '$.steps', problem },
  HF_INVALID_CONDITION: { problem, position, marked },
  HF_DUPLICATE_DEFINITION: definition,
  HF_UNKNOWN_SUBJECT: { kind: 'domain', name: 'risk' },
  HF_UNKNOWN_RATE_LIMIT: { key: 'bank' },
  HF_STOPPED: { what: 'the worker' },
  HF_DATABASE_UNREACHABLE: { target: 'localhost:5432', problem },
  HF_DATABASE_UNAVAILABLE: { operation, waited, problem },
  HF_OUTCOME_UNKNOWN: { operation, problem },
  HF_TRANSACTION_FAILED: {},
  HF_TRANSACTION_CONTROL: { statement: 'commit', problem },
  HF_TRANSACTION_ENDED: { problem },
  HF_NOT_IN_TRANSACTION: {},
  HF_BUSY: { operation, waited, problem },
  HF_DATABASE_TOO_OLD: { version: '12.1' },
  HF_NOT_PERMITTED: { operation, problem, remedy: 'grant it' },
  HF_SCHEMA_TOO_NEW: { schema: 'holdfast', found: 9, known: 7 },
  HF_SCHEMA_TOO_OLD: { schema: 'holdfast', missing: file },
  HF_SCHEMA_DAMAGED: { schema: 'holdfast', problem },
  HF_DATABASE_ERROR: { operation, state: '42P01', problem },
  HF_MIGRATION_CHANGED: { file, problem },
  HF_MIGRATION_FAILED: { file, problem },
  HF_QUEUE_UNAVAILABLE: { problem },
  HF_QUEUE_TOO_OLD: { version: '1.0', needed: '1.4' },
  HF_QUEUE_NOT_FOUND: { queue: 'risk' },
  HF_NOT_FOUND: work,
  HF_UNKNOWN_DEFINITION: { ...definition, version: 2, nearest: 'payments/Payout' },
  HF_OTHER_TYPE: { ...work, actual: 'payments/Refund' },
  HF_WRONG_STATUS: {
    ...work,
    step: 'book',
    status: 'EXECUTING',
    verb: 'retry',
    needs: ['WAITING_FOR_TSQ'],
    can: ['cancel'],
  },
  HF_NOT_COMPLETED: { ...work, ...failed },
  HF_NEEDS_ATTENTION: { ...work, ...failed, step: 'book' },
  HF_RESULT_TIMEOUT: { ...work, waited, status: 'PENDING', why: 'It waits for l1.' },
  HF_CALL_OUTCOME_UNKNOWN: { ...work, step: 'pay' },
  HF_NOTHING_TO_RESOLVE: { ...work, step: 'pay' },
  HF_CANNOT_SKIP: { ...work, problem },
  HF_CANNOT_COMPLETE: { ...work, problem },
  HF_CANNOT_RETRY: { ...work, problem },
  HF_BEING_CANCELLED: work,
  HF_NOT_IN_TROUBLE: work,
  HF_UNKNOWN_TROUBLE: { id: 'PAY-1' },
  HF_AMBIGUOUS_TROUBLE: { id: 'PAY-1', found: 'dispatch a/B' },
  HF_DUPLICATE_COMMAND: work,
  HF_DUPLICATE_KEY: work,
  HF_DUPLICATE_BATCH: { batchId },
  HF_BATCH_CLOSED: { ...work, batchId },
  HF_UNKNOWN_BATCH: { batchId },
  HF_ITEM_CONFLICT: { ...work, problem },
  HF_UNKNOWN_RESPONSE: { ...definition, response: 'approved' },
  HF_UNKNOWN_STEP: { ...definition, version: 2, step: 'chrage', nearest: 'charge' },
  HF_WORKFLOW_CHANGED: { ...definition, version: 2 },
  HF_START_VETOED: { ...definition, version: 2, hook: 'limits', problem },
  HF_LEASE_LOST: { id: 'PAY-1', epoch: '4' },
  HF_INSTANCE_HELD: { id: 'PAY-1' },
  HF_CANCELLED: work,
  HF_DEADLINE_EXCEEDED: work,
  HF_RATE_LIMITED: { key: 'bank', maxWait: '1 s', retryAfter: 50 },
  HF_STEP_NAME_REUSED: { name: 'pay', first: 'step', second: 'wait' },
  HF_CONTINUE_WITH_OPEN_CALLS: { ...work, calls },
  HF_CONTINUE_WITH_COMPENSATIONS: { ...work, calls },
  HF_CALL_OUT_OF_PLACE: { name: 'pay' },
  HF_STATE_WRITE_IN_STEP: { property: 'amount' },
  HF_MUST_NOT_BE_ASYNC: { what: 'the reducer' },
  HF_REDUCER_THREW: { response: 'approved', problem },
  HF_CONDITION_THREW: { wait: 'approval', problem },
  HF_CONDITION_UNEVALUABLE: { step: 'large', problem, marked },
  HF_TARGET_TIMEOUT: { target: 'bank', limit: waited },
  HF_TARGET_INVALID_RESULT: { target: 'bank', problem },
}

/** Said in other words: `process` for `processes`, `retried` for `retry`; and what a message of another detail implies. */
const REWORDED = new Set(['model', 'verb'])
const IMPLIED: Readonly<Partial<Record<ErrorCode, string>>> = { HF_NEEDS_ATTENTION: 'status' }

/** Of no definition: looked up in all models, or told to a worker and to nobody else. */
const OF_NO_DEFINITION: readonly string[] = [
  'HF_UNKNOWN_TROUBLE',
  'HF_AMBIGUOUS_TROUBLE',
  'HF_LEASE_LOST',
  'HF_INSTANCE_HELD',
]

describe('U-11 the details of errors', () => {
  it.each(Object.entries(details))('%s has a message that says all its details', (code, given) => {
    const { message, details: kept } = new HoldfastError(code as ErrorCode, given as never)
    expect(kept).toBe(given)
    for (const [name, value] of Object.entries(given)) {
      if (REWORDED.has(name) || IMPLIED[code as ErrorCode] === name) continue
      expect(message, name).toContain(String(value))
    }
    expect(message).not.toMatch(/undefined|\[object/)
  })

  it.each(Object.entries(details).filter(([code, given]) => 'id' in given && !OF_NO_DEFINITION.includes(code)))(
    '%s names the work by model, domain, type and id',
    (_code, given) => {
      expect(given).toMatchObject({ model: expect.any(String), domain: expect.any(String), type: expect.any(String) })
    },
  )

  it('a verb that does not fit the status says what it needs, and what can be done instead', () => {
    const verbs = {
      retry: ['WAITING_FOR_TSQ'],
      cancel: ['EXECUTING', 'WAITING_FOR_TSQ'],
      complete: ['PENDING before its start'],
    }
    expect(wrongStatus(work, 'retry', 'EXECUTING', verbs).message).toBe(
      'process payments/Payment PAY-1 cannot be retried: it is EXECUTING, and must be WAITING_FOR_TSQ; what can be done with it now: cancel',
    )
    expect(wrongStatus(work, 'retry', 'PENDING', verbs).details.can).toEqual(['complete'])
    expect(wrongStatus(work, 'cancel', 'COMPLETED', verbs, 'book').message).toBe(
      'process payments/Payment PAY-1 at step `book` cannot be cancelled: it is COMPLETED, and must be EXECUTING or WAITING_FOR_TSQ; nothing can be done with it now',
    )
  })
})

describe('sampleMessage', () => {
  it('shows the names of the details, whatever the message does with them', () => {
    const message = (d: { id: string; limit: number; types: string[] }) =>
      `${d.id} over ${d.limit + 1} of ${d.types.join(', ')}`
    expect(sampleMessage(message)).toBe('{id} over {limit} + 1 of {types}')
  })
})
