import { expect, test } from 'vitest'
import { withDatabaseRetry } from './retrying.js'

const lost = () => Object.assign(new Error('lost'), { code: 'ECONNRESET' })
const deadlock = () => Object.assign(new Error('deadlock'), { code: '40P01', severity: 'ERROR' })
const instantly = { next: () => 0 }
const options = { name: 'send', idempotent: true, giveUpAfter: 10_000, backoff: instantly }

/** Fails with the given errors, one after the other, and then succeeds. */
function failing(...errors: Error[]): { operation: () => Promise<string>; attempts: () => number } {
  let attempts = 0
  const operation = async () => {
    const error = errors[attempts++]
    if (error) throw error
    return 'done'
  }
  return { operation, attempts: () => attempts }
}

test('K-11 a transient database error is retried and reported', async () => {
  const told: string[] = []
  const { operation, attempts } = failing(lost(), deadlock())
  const onRetry = (error: unknown) => told.push(error instanceof Error ? error.message : '')
  expect(await withDatabaseRetry(operation, { ...options, onRetry })).toBe('done')
  expect(attempts()).toBe(3)
  expect(told).toEqual(['lost', 'deadlock'])
})

test('K-11 any other error is thrown at once, as it is', async () => {
  const mistake = new Error('no such column')
  const { operation, attempts } = failing(mistake)
  await expect(withDatabaseRetry(operation, options)).rejects.toBe(mistake)
  expect(attempts()).toBe(1)
})

test('K-05 an unknown outcome is repeated only by what recognises its own success', async () => {
  const once = failing(lost())
  await expect(withDatabaseRetry(once.operation, { ...options, idempotent: false })).rejects.toThrow('lost')
  expect(once.attempts()).toBe(1)
  const certain = failing(deadlock())
  expect(await withDatabaseRetry(certain.operation, { ...options, idempotent: false })).toBe('done')
})

test('K-11 it gives up after its time and says what prevented it', async () => {
  const { operation } = failing(lost())
  const impatient = { ...options, giveUpAfter: 1_000, backoff: { next: () => 2_000 } }
  await expect(withDatabaseRetry(operation, impatient)).rejects.toMatchObject({
    code: 'HF_DATABASE_UNAVAILABLE',
    message: expect.stringMatching(/^send .* lost$/),
    cause: { message: 'lost' },
  })
})

test('K-11 a signal ends the waiting', async () => {
  const stop = new AbortController()
  const { operation, attempts } = failing(lost(), lost())
  const patient = {
    ...options,
    giveUpAfter: Number.POSITIVE_INFINITY,
    backoff: { next: () => 60_000 },
    signal: stop.signal,
    onRetry: () => stop.abort(),
  }
  await expect(withDatabaseRetry(operation, patient)).rejects.toMatchObject({ name: 'AbortError' })
  expect(attempts()).toBe(1)
})
