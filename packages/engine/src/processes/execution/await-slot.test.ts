import { expect, test } from 'vitest'
import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import type { Limiter } from '../../kernel/model/limiter.js'
import { awaitSlot } from './await-slot.js'
import type { Execution } from './execution.js'

/** As much of an execution as a wait for a slot sees. */
function executionWith(limiter: Pick<Limiter, 'reserve'>): Execution {
  const quiet = () => new AbortController().signal
  const seen = {
    item: { deadline: null },
    lease: { signal: quiet() },
    cancelSignal: quiet(),
    callOffSignal: quiet(),
    parts: { limiter, stopSignal: undefined },
    now: () => 0,
    classify: (error: unknown) => classifyFailure(error, { unknown: 'permanent' }),
  }
  return seen as unknown as Execution
}

const limit = { key: 'risk_api', maxWaitMs: 5_000 }

test.each([
  [
    'a bucket that was held for too long',
    new HoldfastError('HF_DATABASE_UNAVAILABLE', { operation: 'x', waited: '30 s', problem: 'held' }),
  ],
  ['a broken connection', Object.assign(new Error('terminating connection'), { code: '57P01' })],
])('P-13 K-23 %s uses no attempt up: the step has not begun, and is tried again', async (_, error) => {
  const attempted = await awaitSlot(executionWith({ reserve: () => Promise.reject(error) }), limit)
  expect(attempted).toMatchObject({ notBegun: { kind: expect.any(String) }, retryAfterMs: 1_000 })
})

test('R-03 an unknown limit is a failure of a call that never began', async () => {
  const unknown = new HoldfastError('HF_UNKNOWN_RATE_LIMIT', { key: 'risk_api' })
  const attempted = await awaitSlot(executionWith({ reserve: () => Promise.reject(unknown) }), limit)
  expect(attempted).toMatchObject({ failed: { code: 'HF_UNKNOWN_RATE_LIMIT' }, outcome: undefined })
})
