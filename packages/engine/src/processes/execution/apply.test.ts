import { describe, expect, it } from 'vitest'
import type { RecordDetail, RecordedFailure } from '../history.js'
import { apply, type RecordedEvent } from './apply.js'
import type { CallSpec } from './call-spec.js'
import type { FinalDecision } from './decisions.js'
import { Mismatch } from './mismatch.js'
import { command, emptyState, recorded, step } from './state.fixture.js'

const failure = (more: Partial<RecordedFailure> = {}): RecordedFailure => ({
  kind: 'PERMANENT',
  code: 'NO',
  message: 'no',
  fingerprint: 'f',
  ...more,
})

/** A state with one open call `a`, and what applies records to it. */
function withCall(spec: CallSpec) {
  const state = emptyState([
    { number: 1, name: 'told', data: 'hello', notes: null },
    { number: 2, name: '@command', data: { commandId: 'c' }, notes: null },
  ])
  const call = state.calls.add('a', spec)
  let seq = 0
  const record = (status: RecordedEvent['status'], detail: RecordDetail | null = null, more: object = {}) => {
    seq += 1
    return apply(state, recorded(seq, { kind: spec.kind, name: 'a', status, detail, ...more }))
  }
  const said = (resolved: 'done' | 'notDone' | 'skipped', more: object = {}) =>
    apply(state, recorded(90, { kind: 'RESOLVE', name: 'a', status: 'COMPLETED', detail: { resolved }, ...more }))
  const operator = (kind: 'RETRY' | 'RESUME') => apply(state, recorded(90, { kind, name: kind, status: 'COMPLETED' }))
  const unwind = () => apply(state, recorded(80, { kind: 'UNWIND', name: 'FAILURE', status: 'STARTED', detail: {} }))
  return { state, call, record, said, operator, unwind }
}

describe('a call and its records', () => {
  it('P-04 a result settles the call at the time of its record, and is kept as a copy for the compensation', () => {
    const { state, call, record } = withCall(step)
    const effect = record('COMPLETED', { startedAt: 1 }, { result: { paid: 1 } })
    expect(effect).toEqual({ call, value: { paid: 1 } })
    expect([call.progress, call.outcome, call.lastSeq, state.time]).toEqual(['settled', 'completed', 1, 1_000])
    expect(call.result).toEqual({ paid: 1 })
    expect(call.result).not.toBe((effect as { value: unknown }).value)
    expect(state.calls.open().size).toBe(0)
  })

  it('P-04 a result at hand has the effect that its record has on a replay', () => {
    const live = withCall(step)
    const replayed = withCall(step)
    const event = recorded(1, { kind: 'STEP', name: 'a', status: 'COMPLETED', detail: { startedAt: 1 } })
    apply(live.state, event, { encoded: { json: '{"paid":1}', notes: null }, value: { paid: 1 } })
    replayed.record('COMPLETED', { startedAt: 1 }, { result: { paid: 1 } })
    const { promise: _live, settlers: _ours, ...seenLive } = live.call
    const { promise: _replayed, settlers: _theirs, ...seenReplayed } = replayed.call
    expect({ ...seenLive, spec: 0 }).toEqual({ ...seenReplayed, spec: 0 })
  })

  it('P-04 a result of nothing is undefined, not null', () => {
    const { call, record } = withCall(step)
    expect(record('COMPLETED', { nothing: true }, { result: null })).toEqual({ call, value: undefined })
  })

  it.each([
    ['a first refusal', [['WAITING_RETRY', 'refused']], 'refused'],
    [
      'an unknown outcome and a refusal',
      [
        ['WAITING_RETRY', 'unknown'],
        ['WAITING_RETRY', 'refused'],
      ],
      'unknown',
    ],
    [
      'an unknown outcome that was inquired about',
      [
        ['WAITING_RETRY', 'unknown'],
        ['WAITING_RETRY', 'notDone'],
      ],
      'refused',
    ],
    ['a call on record before it is made', [['STARTED', undefined]], 'unknown'],
    [
      'an inquiry before the next call, and a refusal',
      [
        ['WAITING_RETRY', 'unknown'],
        ['STARTED', 'notDone'],
        ['WAITING_RETRY', 'refused'],
      ],
      'refused',
    ],
    ['a call that never began', [['WAITING_RETRY', undefined]], undefined],
  ] as const)('K-19 what is known after %s', (_, records, outcome) => {
    const { call, record } = withCall({ ...step, atMostOnce: true })
    for (const [status, ended] of records) record(status, { error: failure(), ...(ended ? { outcome: ended } : {}) })
    expect(call.outcome).toBe(outcome)
  })

  it('K-19 an attempt that may have begun before a crash is of unknown outcome; a command of which its end may come', () => {
    const one = withCall(step)
    one.record('STARTED', { recovered: true })
    expect([one.call.progress, one.call.begun, one.call.outcome]).toEqual(['new', false, 'unknown'])
    const other = withCall(command)
    other.record('STARTED', { recovered: true })
    expect([other.call.progress, other.call.begun, other.call.outcome]).toEqual(['new', true, 'unknown'])
  })

  it('P-13 attempts and the time of the next one are those of the record', () => {
    const { call, record } = withCall(step)
    record('WAITING_RETRY', { error: failure(), outcome: 'refused' }, { attempt: 2, nextAt: 5_000 })
    expect([call.progress, call.attempts, call.nextAt]).toEqual(['retrying', 2, 5_000])
  })

  it('P-13 a thrown failure settles the call and decides nothing', () => {
    const { state, call, record } = withCall(step)
    const error = failure()
    expect(record('FAILED', { error, thrown: true, outcome: 'refused' })).toEqual({ call, failed: error })
    expect([call.progress, state.finalDecision]).toEqual(['settled', undefined])
  })

  it('P-07 a failure after the end of execute decides nothing', () => {
    const { state, call, record } = withCall(step)
    record('FAILED', { error: failure(), afterEnd: true, outcome: 'refused' })
    expect([call.progress, call.failedAs, state.finalDecision]).toEqual(['failed', undefined, undefined])
  })

  it('P-18 a failure without its error, or a second end, does not fit', () => {
    const { record, unwind } = withCall(step)
    expect(() => record('FAILED')).toThrow(Mismatch)
    record('COMPLETED')
    expect(() => record('COMPLETED')).toThrow(Mismatch)
    unwind()
    expect(record('COMPLETED')).toBe('none')
  })

  it('P-03 an event takes its response, and what was applied up to there is in the state', () => {
    const { state, call, record } = withCall({
      kind: 'EVENT',
      response: 'told',
      timeoutMs: undefined,
      onTimeout: 'return',
    })
    expect(record('COMPLETED', { response: 1 }, { seen: 1 })).toEqual({ call, value: 'hello' })
    expect([state.data.seen, state.data.find('told')]).toEqual([1, undefined])
  })

  it('P-03 a failed command takes its reply too', () => {
    const { state, call, record } = withCall(command)
    record('STARTED', { startedId: 'c' })
    expect([call.progress, call.underWay, call.armed]).toEqual(['waiting', true, true])
    record('FAILED', { error: failure({ kind: 'BUSINESS' }), outcome: 'refused', response: 2 }, { seen: 2 })
    expect([call.underWay, call.outcome, state.data.find('@command')]).toEqual([false, 'refused', undefined])
    expect(state.finalDecision).toMatchObject({ to: 'UNWIND', reason: 'FAILURE' })
  })

  it.each([
    ['WAIT', false],
    ['EVENT', undefined],
  ] as const)('P-10 a %s that timed out returns %s, and its call has no outcome', (kind, value) => {
    const limits = { timeoutMs: 1, onTimeout: 'return' } as const
    const { call, record } = withCall(
      kind === 'WAIT' ? { kind, condition: () => true, ...limits } : { kind, response: 'told', ...limits },
    )
    expect(record('COMPLETED', { timedOut: true })).toEqual({ call, value })
    expect(call.outcome).toBeUndefined()
  })

  it('P-10 a command whose wait timed out is still under way', () => {
    const { state, call, record } = withCall(command)
    record('STARTED', { startedId: 'c' })
    record('FAILED', { timedOut: true, error: failure({ code: 'WAIT_TIMEOUT' }) })
    expect([call.progress, call.underWay, call.outcome]).toEqual(['failed', true, 'unknown'])
    expect(state.finalDecision).toMatchObject({ to: 'TSQ', error: { code: 'WAIT_TIMEOUT' } })
  })
})

describe('what operators do', () => {
  it('P-16 a retry begins failed calls again and withdraws the decision', () => {
    const { state, call, record, operator } = withCall(step)
    record('FAILED', { error: failure(), outcome: 'unknown' }, { attempt: 3 })
    expect(state.finalDecision).toMatchObject({ to: 'TSQ' })
    operator('RETRY')
    expect([call.progress, call.attempts, call.failedAs, state.finalDecision]).toEqual(['new', 0, undefined, undefined])
    expect(call.outcome).toBe('unknown')
  })

  it('P-16 a retry of a compensation begins again only what is not done', () => {
    const { state, operator, unwind } = withCall(step)
    unwind()
    for (const [name, status] of [
      ['a', 'FAILED'],
      ['b', 'COMPLETED'],
    ] as const) {
      apply(state, recorded(81, { kind: 'COMPENSATION', name, status, attempt: 3 }))
    }
    operator('RETRY')
    expect([...state.compensations.keys()]).toEqual(['b'])
    expect(state.finalDecision).toBe(state.unwinding)
  })

  it('P-16 a resume makes what waits for its next attempt due', () => {
    const { call, record, operator } = withCall(step)
    record('WAITING_RETRY', { error: failure() }, { nextAt: 1_000_000 })
    operator('RESUME')
    expect(call.nextAt).toBe(90_000)
  })

  it('K-20 a person says that it was done, or was not; what else has failed still decides', () => {
    const done = withCall(step)
    done.record('FAILED', { error: failure({ code: 'OUTCOME_UNKNOWN' }), outcome: 'unknown' })
    done.state.calls.add('b', step)
    apply(
      done.state,
      recorded(2, {
        kind: 'STEP',
        name: 'b',
        status: 'FAILED',
        detail: { error: failure({ code: 'OTHER' }), outcome: 'refused' },
      }),
    )
    expect(done.state.finalDecision).toMatchObject({ error: { code: 'OUTCOME_UNKNOWN' } })
    expect(done.said('done', { result: 7 })).toEqual({ call: done.call, value: 7 })
    expect(done.state.finalDecision).toMatchObject({ error: { message: 'OTHER: no' } })
    const not = withCall(step)
    not.record('FAILED', { error: failure({ code: 'OUTCOME_UNKNOWN' }), outcome: 'unknown' })
    expect(not.said('notDone')).toBe('none')
    expect([not.call.progress, not.call.outcome, not.state.finalDecision]).toEqual(['new', 'refused', undefined])
  })

  it('K-20 what execute has returned stands: a call that was not done is not begun again', () => {
    const { state, call, record, said } = withCall(step)
    record('FAILED', { error: failure({ code: 'OUTCOME_UNKNOWN' }), outcome: 'unknown' })
    apply(state, { kind: 'RETURN', ending: { value: 1 } })
    said('notDone')
    expect(call.progress).toBe('failed')
  })

  it('P-18 what a person said of a call that has not failed does not fit', () => {
    expect(() => withCall(step).said('done')).toThrow(Mismatch)
  })
})

const inTrouble: FinalDecision = { to: 'TSQ', error: failure() }
const failed: FinalDecision = { to: 'END', end: 'FAILED', error: failure() }
const undone: FinalDecision = { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: failure() }
const cancelled: FinalDecision = { to: 'END', end: 'CANCELLED', error: undefined }
const cancelledUndone: FinalDecision = { to: 'UNWIND', end: 'CANCELLED', reason: 'CANCEL', error: undefined }

describe('the final decision', () => {
  it.each([
    ['the first failure stands', inTrouble, undone, false],
    ['an end stands', failed, cancelled, false],
    ['a cancellation replaces trouble', inTrouble, cancelled, true],
    ['a cancellation with compensation replaces trouble', inTrouble, cancelledUndone, true],
    ['a plain cancellation replaces a compensation that is to begin', undone, cancelled, true],
    ['trouble does not replace a cancellation', cancelledUndone, inTrouble, false],
  ] as const)('P-12 P-14 %s', (_, first, second, replaced) => {
    const state = emptyState()
    apply(state, { kind: 'DECIDE', decision: first })
    apply(state, { kind: 'DECIDE', decision: second })
    expect(state.finalDecision).toBe(replaced ? second : first)
  })

  it('P-12 once compensations run, only a plain cancellation replaces them', () => {
    const { state, unwind } = withCall(step)
    unwind()
    apply(state, { kind: 'DECIDE', decision: cancelledUndone })
    expect(state.finalDecision).toBe(state.unwinding)
    apply(state, { kind: 'DECIDE', decision: cancelled })
    expect(state.finalDecision).toBe(cancelled)
  })

  it('P-14 a recorded compensation replaces the failure that led to it', () => {
    const { state, record, unwind } = withCall(step)
    record('FAILED', { error: failure(), outcome: 'refused' })
    unwind()
    expect(state.finalDecision).toEqual({ to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: undefined })
  })

  it('K-20 only an unknown outcome of our own is one; user code may throw the same code', () => {
    const theirs = withCall(step)
    theirs.record('FAILED', { error: failure({ code: 'OUTCOME_UNKNOWN', kind: 'BUSINESS' }), outcome: 'refused' })
    expect(theirs.state.finalDecision).toMatchObject({ to: 'UNWIND' })
  })

  it('the first end of execute, the first continuation and the first cancellation stand', () => {
    const state = emptyState()
    for (const value of [1, 2]) apply(state, { kind: 'RETURN', ending: { value } })
    for (const n of [1, 2]) apply(state, { kind: 'CONTINUE', continuation: { state: n, keepEffects: false } })
    for (const cancel of ['COMPENSATE', 'PLAIN'] as const) apply(state, { kind: 'CANCEL', cancel })
    expect(state).toMatchObject({ ending: { value: 1 }, continuation: { state: 1 }, cancel: 'COMPENSATE' })
  })
})
