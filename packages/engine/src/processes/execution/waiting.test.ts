import { expect, test, vi } from 'vitest'
import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { apply } from './apply.js'
import type { RemoteSpec } from './call-spec.js'
import { Execution } from './execution.js'
import { emptyState, recorded } from './state.fixture.js'
import { withholdRemotes } from './waiting.js'

/** A command that may have been sent by a worker that died, and as much of its execution as its withholding sees. */
function mayHaveBeenSent(withhold: () => Promise<void>) {
  const spec = { kind: 'COMMAND', begin: vi.fn(), withhold, cancel: vi.fn() }
  const state = emptyState()
  const call = state.calls.add('pay', spec as unknown as RemoteSpec)
  apply(state, recorded(1, { kind: 'COMMAND', name: 'pay', status: 'STARTED', detail: { recovered: true } }))
  const append = vi.fn((record: object) => ({ ...record, seq: 7, at: 0, seen: null }))
  const { record, recordCall } = Execution.prototype
  const seen = {
    state,
    item: { id: '01a1e27d-daf8-76bb-95ef-2c0db2463e56', generation: 1 },
    lease: { aborted: false },
    journal: { append },
    classify: (error: unknown) => classifyFailure(error, { unknown: 'permanent' }),
    record,
    recordCall,
  }
  return { execution: seen as unknown as Execution, call, append }
}

test('K-19 a command that cannot be withheld while the database is away is not taken for one that was never sent', async () => {
  const away = new HoldfastError('HF_DATABASE_UNAVAILABLE', { operation: 'send', waited: '30 s', problem: 'away' })
  const { execution, call, append } = mayHaveBeenSent(() => Promise.reject(away))
  await expect(withholdRemotes(execution)).rejects.toBe(away)
  expect(append).not.toHaveBeenCalled()
  expect(call.outcome).toBe('unknown')
})

test('K-19 a command that is refused when it is withheld was never sent; one that is withheld is awaited', async () => {
  const refused = mayHaveBeenSent(() =>
    Promise.reject(new HoldfastError('HF_NOT_ENCODABLE', { path: '$', problem: 'x' })),
  )
  await withholdRemotes(refused.execution)
  expect(refused.append).toHaveBeenCalledWith(
    expect.objectContaining({ status: 'FAILED', detail: expect.objectContaining({ outcome: 'notDone' }) }),
  )
  expect(refused.call.outcome).toBe('refused')
  const withheld = mayHaveBeenSent(() => Promise.resolve())
  await withholdRemotes(withheld.execution)
  expect(withheld.append).toHaveBeenCalledWith(expect.objectContaining({ status: 'STARTED' }))
  expect(withheld.call.underWay).toBe(true)
})
