import { describe, expect, it } from 'vitest'
import { apply } from './apply.js'
import { isPastDeadline, next } from './next.js'
import { emptyState, recorded, step } from './state.fixture.js'

const around = { now: 10_000, deadline: null, running: 0, stopping: false }
const error = { kind: 'PERMANENT', code: 'NO', message: 'no', fingerprint: 'f' } as const

/** A state whose calls are at these points. */
function withCalls(...progress: ('new' | 'running' | 'waiting' | number)[]) {
  const state = emptyState()
  progress.forEach((one, place) => {
    const name = `c${place}`
    const call = state.calls.add(name, one === 'waiting' ? { kind: 'SLEEP', forMs: 1 } : step)
    if (one === 'running') apply(state, { kind: 'BEGIN', call })
    if (one === 'waiting')
      apply(state, recorded(1, { kind: 'SLEEP', name, status: 'STARTED', detail: null, nextAt: 12_000 }))
    if (typeof one === 'number')
      apply(state, recorded(1, { kind: 'STEP', name, status: 'WAITING_RETRY', detail: { error }, nextAt: one }))
  })
  return state
}

describe('what an execution does next', () => {
  it('P-08 begins new calls and those that are due, in their order', () => {
    const state = withCalls(9_000, 'running', 'new', 11_000)
    const action = next(state, { ...around, running: 1 })
    expect(action.kind === 'start' && action.calls.map(({ id }) => id)).toEqual(['c0', 'c2'])
  })

  it('P-17 begins nothing on a worker that stops, and is released when nothing runs', () => {
    expect(next(withCalls('new'), { ...around, stopping: true })).toEqual({ kind: 'stopping' })
    expect(next(withCalls('new', 'running'), { ...around, stopping: true, running: 1 }).kind).toBe('pause')
  })

  it('P-07 begins nothing after the final decision, and leaves only when nothing runs', () => {
    const state = withCalls('new')
    apply(state, { kind: 'DECIDE', decision: { to: 'TSQ', error } })
    expect(next(state, { ...around, running: 1 })).toEqual({ kind: 'pause', forMs: undefined })
    expect(next(state, around)).toEqual({ kind: 'decided', finalDecision: { to: 'TSQ', error } })
  })

  it('P-07 makes no further attempt once execute has returned, and begins what it has called', () => {
    const state = withCalls(9_000, 'new')
    apply(state, { kind: 'RETURN', ending: { value: 7 } })
    const action = next(state, around)
    expect(action.kind === 'start' && action.calls.map(({ id }) => id)).toEqual(['c1'])
  })

  it('P-01 ends with the result, or continues with the next state, or waits', () => {
    const ended = emptyState()
    apply(ended, { kind: 'RETURN', ending: { value: 7 } })
    expect(next(ended, around)).toEqual({ kind: 'ended', value: 7 })
    apply(ended, { kind: 'CONTINUE', continuation: { state: 8, keepEffects: true } })
    expect(next(ended, around)).toEqual({ kind: 'continue', state: 8, keepEffects: true })
    expect(next(withCalls('waiting', 11_000), around)).toEqual({ kind: 'waiting' })
  })

  it('P-10 pauses beside what runs until the earliest wait or attempt', () => {
    expect(next(withCalls('running', 'waiting', 11_000), { ...around, running: 1 })).toEqual({
      kind: 'pause',
      forMs: 1_000,
    })
    const stopping = { ...around, running: 1, stopping: true }
    expect(next(withCalls('running', 'waiting', 11_000), stopping)).toEqual({ kind: 'pause', forMs: 2_000 })
    expect(next(withCalls('running'), { ...around, running: 1, deadline: 11_000 })).toEqual({
      kind: 'pause',
      forMs: undefined,
    })
  })

  it('P-15 code that awaits nothing of ours keeps its lease until the deadline', () => {
    expect(next(emptyState(), { ...around, deadline: 10_500 })).toEqual({ kind: 'pause', forMs: 500 })
  })

  it('P-15 the deadline is checked where a call would begin or nothing runs, and interrupts no call', () => {
    const passed = { ...around, deadline: 10_000 }
    expect(isPastDeadline(withCalls('running'), { ...passed, running: 1 })).toBe(false)
    expect(isPastDeadline(withCalls('running', 'new'), { ...passed, running: 1 })).toBe(true)
    expect(isPastDeadline(withCalls('waiting'), passed)).toBe(true)
    expect(isPastDeadline(withCalls('waiting'), { ...passed, deadline: 10_001 })).toBe(false)
  })
})
