import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { defineWorkflow } from '../define.js'
import { business, fail, forked, permanent, transient } from '../simulation/samples.js'
import { by, payload, Simulation } from '../simulation/simulation.js'

const undone = (run: Simulation) =>
  run.events.filter(({ type }) => type === 'compensation_success').map(({ step }) => step)

/** Lets every compensation succeed, in the order in which they become due. */
function undoAll(run: Simulation): Simulation {
  for (let next = run.waiting()[0]; next?.startsWith('compensation '); next = run.waiting()[0]) {
    run.compensate(next.slice('compensation '.length))
  }
  return run
}

const two = defineWorkflow('test', 'two')
  .step('pay', 'Pay', { retry: ['1s'] })
  .onFailure('refund', 'Refund')
  .step('ship', 'Ship')
  .build()

describe('K-19 a step that was called and then skipped is undone', () => {
  it('cancelled while the handler runs and ends upon its signal', () => {
    const run = new Simulation(two).start()
    run.claim('pay')
    run.apply({ type: 'cancel', by })
    run.apply({ type: 'failed', step: 'pay', failure: transient })
    expect(run.state.steps.get('pay')).toMatchObject({ status: 'COMPENSATING', outcome: 'unknown' })
    run.compensate('pay')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('cancelled between two attempts', () => {
    const run = new Simulation(two).start()
    fail(run, 'pay', transient)
    expect(run.state.steps.get('pay')).toMatchObject({ status: 'PENDING', outcome: 'unknown' })
    run.apply({ type: 'cancel', by })
    expect(run.waiting()).toEqual(['compensation pay'])
    run.compensate('pay')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('a sibling fails while the step waits for its retry', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    fail(run, 'l1', transient)
    fail(run, 'r1')
    undoAll(run)
    expect(undone(run).filter((step) => step !== 'fork')).toEqual(['r1', 'l1', 'first'])
    expect(run.state.status).toBe('FAILED')
  })

  it.each(['obeys its signal', 'waits for its retry', 'dies'])(
    'the loser of an any join that %s, when the instance fails later',
    (how) => {
      const run = new Simulation(forked('any')).start().complete('first')
      if (how === 'waits for its retry') fail(run, 'l1', transient)
      else run.claim('l1')
      run.complete('r1')
      if (how === 'obeys its signal') run.apply({ type: 'failed', step: 'l1', failure: transient })
      if (how === 'dies') run.claim('l1')
      expect(run.statuses()).toMatchObject({ l1: 'SKIPPED' })
      fail(run, 'last')
      undoAll(run)
      expect(undone(run)).toContain('l1')
      expect(run.state.status).toBe('FAILED')
    },
  )

  it('a dead-lettered instance is cancelled: what waited for its retry, and every dead letter, is undone', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    fail(run, 'l1', transient)
    fail(run, 'r1')
    expect(run.statuses()).toMatchObject({ l1: 'PAUSED', r1: 'PAUSED' })
    run.apply({ type: 'cancel', by })
    undoAll(run)
    expect(undone(run).filter((step) => step !== 'fork')).toEqual(['r1', 'l1', 'first'])
    expect(run.state.status).toBe('CANCELLED')
  })

  it('an attempt of unknown outcome is not lost when the next one is refused, released or requeued', () => {
    const branches = defineWorkflow('test', 'w', { dlq: true })
      .fork(
        'f',
        (b) => b.step('a', 'H').onFailure('ua', 'U'),
        (b) => b.step('b', 'H'),
      )
      .join('j', 'all')
      .build()
    const run = new Simulation(branches).start()
    fail(run, 'a', transient)
    run.claim('a')
    run.apply({ type: 'released', step: 'a', kind: 'step', because: 'stopping' })
    expect(run.state.steps.get('a')?.outcome).toBe('unknown')
    fail(run, 'a', business)
    expect(run.state.steps.get('a')?.outcome).toBe('unknown')
    run.apply({ type: 'requeued', step: 'a', by })
    expect(run.state.steps.get('a')).toMatchObject({
      status: 'PENDING',
      attempts: 0,
      outcome: 'unknown',
      failure: null,
    })
    fail(run, 'b')
    run.apply({ type: 'cancel', by })
    undoAll(run)
    expect(undone(run)).toContain('a')
  })

  it('one that was refused is not, unless it made the instance fail', () => {
    const run = new Simulation(forked('any')).start().complete('first')
    fail(run, 'l1', business)
    run.complete('r1')
    fail(run, 'last', permanent)
    undoAll(run)
    expect(undone(run)).toEqual(['last', 'join', 'r1', 'fork', 'first'])
    expect(run.statuses()).toMatchObject({ l1: 'FAILED' })
  })

  it('one that was never called is not: skipped, released, or its input did not fit', () => {
    const given = new Simulation(two).start()
    given.claim('pay')
    given.apply({ type: 'cancel', by })
    given.apply({ type: 'released', step: 'pay', kind: 'step', because: 'stopping' })
    expect(given.state.status).toBe('CANCELLED')
    expect(given.statuses()).toEqual({ pay: 'SKIPPED' })
    const bad = new Simulation(two).start()
    bad.claim('pay')
    bad.apply({ type: 'failed', step: 'pay', failure: permanent, known: 'notBegun' })
    expect(bad.state).toMatchObject({ status: 'FAILED', failure: { step: 'pay' } })
    expect(bad.state.steps.get('pay')).toMatchObject({ status: 'FAILED', attempts: 0, outcome: null })
    expect(bad.deadLetters.size).toBe(0)
    const late = new Simulation(forked('all')).start().complete('first')
    late.claim('l1')
    fail(late, 'r1')
    late.apply({ type: 'failed', step: 'l1', failure: permanent, known: 'notBegun' })
    undoAll(late)
    expect(late.statuses()).toMatchObject({ l1: 'SKIPPED', r1: 'ROLLED_BACK', first: 'ROLLED_BACK' })
  })

  it('an abort does not change it, and its outcome stays on record', () => {
    const run = new Simulation(two).start()
    run.claim('pay')
    run.apply({ type: 'abort', by })
    run.apply({ type: 'failed', step: 'pay', failure: transient })
    expect(run.state.steps.get('pay')).toMatchObject({ status: 'SKIPPED', outcome: 'unknown' })
    expect(run.queue.size).toBe(0)
  })

  it.each([
    ['possible', { refused: [], unknown: ['a'], completed: ['a'] }],
    ['completed', { refused: [], unknown: [], completed: ['a'] }],
    ['attempted', { refused: ['a'], unknown: ['a'], completed: ['a'] }],
    [undefined, { refused: ['a'], unknown: ['a'], completed: ['a'] }],
  ] as const)('compensateIf %s, of the failing step and of a completed one', (compensateIf, expected) => {
    const workflow = defineWorkflow('test', 'w')
      .step('a', 'A', { retry: { maxAttempts: 1 } })
      .onFailure('ua', 'U', compensateIf === undefined ? {} : { compensateIf })
      .step('b', 'B')
      .build()
    const calls = (run: Simulation) => run.calls.filter(({ kind }) => kind === 'compensation').map(({ step }) => step)
    for (const outcome of ['refused', 'unknown'] as const) {
      const run = new Simulation(workflow).start()
      fail(run, 'a', outcome === 'refused' ? business : transient)
      expect([outcome, calls(undoAll(run))]).toEqual([outcome, expected[outcome]])
      expect(run.state.status).toBe('FAILED')
    }
    const run = new Simulation(workflow).start().complete('a')
    fail(run, 'b')
    expect(calls(undoAll(run))).toEqual(expected.completed)
  })
})

describe('K-19 a handler that was told to stop and ignores its signal', () => {
  it('counts as lost; if it has ended by itself meanwhile, nothing changes', () => {
    const run = new Simulation(two).start()
    run.claim('pay')
    run.apply({ type: 'cancel', by })
    run.apply({ type: 'abandoned', step: 'pay', kind: 'step' })
    expect(run.state.steps.get('pay')).toMatchObject({ status: 'COMPENSATING', outcome: 'unknown' })
    // The compensation has the step's place in the queue now.
    expect(run.apply({ type: 'abandoned', step: 'pay', kind: 'step' })).toMatchObject({ remove: [], steps: [] })
    run.compensate('pay')
    expect(run.state.status).toBe('CANCELLED')
  })
})

describe('K-26 a worker that is stopped in order during a call', () => {
  it('uses no attempt, and leaves the outcome unknown', () => {
    const run = new Simulation(two).start()
    for (let stops = 0; stops < 10; stops += 1) {
      run.claim('pay')
      run.apply({ type: 'interrupted', step: 'pay', kind: 'step' })
      expect(run.state.steps.get('pay')).toMatchObject({ status: 'PENDING', attempts: 0, outcome: 'unknown' })
      expect(run.queue.get('step pay')?.delayMs).toBe(0)
    }
    fail(run, 'pay', business)
    run.compensate('pay')
    expect(run.state.status).toBe('FAILED')
  })

  it('of a step that was cancelled meanwhile: it is undone; of a compensation: it is called again', () => {
    const run = new Simulation(two).start()
    run.claim('pay')
    run.apply({ type: 'cancel', by })
    run.apply({ type: 'interrupted', step: 'pay', kind: 'step' })
    for (let stops = 0; stops < 10; stops += 1) {
      run.claim('pay', 'compensation')
      run.apply({ type: 'interrupted', step: 'pay', kind: 'compensation' })
    }
    run.compensate('pay')
    expect(run.state.status).toBe('CANCELLED')
    const sibling = new Simulation(forked('all')).start().complete('first')
    sibling.claim('l1')
    fail(sibling, 'r1')
    sibling.apply({ type: 'interrupted', step: 'l1', kind: 'step' })
    undoAll(sibling)
    expect(undone(sibling)).toEqual(expect.arrayContaining(['r1', 'l1', 'first']))
  })
})

describe('K-20 a step that must not be repeated', () => {
  const once = (dlq: boolean) =>
    defineWorkflow('test', 'once', { dlq })
      .step('pay', 'Pay', { nonIdempotent: true })
      .onFailure('refund', 'Refund', { nonIdempotent: true })
      .step('ship', 'Ship')
      .build()

  it('takes the failure path with OUTCOME_UNKNOWN whatever was thrown, beginning with its own compensation', () => {
    const run = new Simulation(once(false)).start()
    fail(run, 'pay', transient)
    expect(run.state).toMatchObject({ status: 'ROLLING_BACK', failure: { failure: { code: 'OUTCOME_UNKNOWN' } } })
    expect(run.waiting()).toEqual(['compensation pay'])
  })

  it('is tried again after it was found not done, while attempts are left', () => {
    const run = new Simulation(once(false)).start()
    for (let attempt = 1; attempt < 3; attempt += 1) {
      run.claim('pay')
      run.apply({ type: 'failed', step: 'pay', failure: transient, known: 'notDone' })
      expect(run.state.steps.get('pay')).toMatchObject({ status: 'PENDING', outcome: 'refused' })
    }
    run.complete('pay').complete('ship')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('is inquired about after a crash if the worker can; the last time without a call', () => {
    const run = new Simulation(once(false)).start()
    run.claim('pay')
    const claim = () => run.apply({ type: 'claimed', step: 'pay', kind: 'step', canInquire: true }).call
    expect(claim()).toEqual({ step: 'pay', kind: 'step', attempt: 2, inquire: 'first' })
    expect(claim()).toMatchObject({ attempt: 3, inquire: 'first' })
    expect(claim()).toMatchObject({ attempt: 4, inquire: 'only' })
    expect(claim()).toBeNull()
    expect(run.state.failure?.failure.code).toBe('OUTCOME_UNKNOWN')
  })

  it('is inquired about after a crash and a cancel, and never called', () => {
    const run = new Simulation(once(false)).start()
    run.claim('pay')
    run.apply({ type: 'cancel', by })
    const { call } = run.apply({ type: 'claimed', step: 'pay', kind: 'step', canInquire: true })
    expect(call).toMatchObject({ inquire: 'only' })
    run.apply({ type: 'failed', step: 'pay', failure: transient, known: 'notDone' })
    expect(run.state.status).toBe('CANCELLED')
    expect(run.statuses()).toEqual({ pay: 'SKIPPED' })
  })

  it('is not inquired about after a crash and an abort: nothing is done for an instance that has ended', () => {
    const run = new Simulation(once(false)).start()
    run.claim('pay')
    run.apply({ type: 'abort', by })
    const { call } = run.apply({ type: 'claimed', step: 'pay', kind: 'step', canInquire: true })
    expect(call).toBeNull()
    expect(run.state.steps.get('pay')).toMatchObject({ inFlight: false, outcome: 'unknown' })
    expect(run.waiting()).toEqual([])
  })

  it('released, or stopped in order, while its outcome is unknown, it is inquired about before it is called', () => {
    const run = new Simulation(once(false)).start()
    run.claim('pay')
    run.apply({ type: 'claimed', step: 'pay', kind: 'step', canInquire: true })
    run.apply({ type: 'released', step: 'pay', kind: 'step', because: 'handler_missing' })
    expect(run.claim('pay').call).toMatchObject({ inquire: 'first' })
    run.apply({ type: 'interrupted', step: 'pay', kind: 'step' })
    expect(run.claim('pay').call).toMatchObject({ inquire: 'first' })
  })

  it('requeued from the DLQ, it is inquired about first', () => {
    const run = new Simulation(once(true)).start()
    fail(run, 'pay', transient)
    expect(run.deadLetters.get('pay')?.failure.code).toBe('OUTCOME_UNKNOWN')
    run.apply({ type: 'requeued', step: 'pay', by })
    expect(run.claim('pay').call).toEqual({ step: 'pay', kind: 'step', attempt: 1, inquire: 'first' })
  })

  it('a person says that it was not done: it is called; or that it was: its output goes on', () => {
    const again = new Simulation(once(true)).start()
    fail(again, 'pay', transient)
    again.apply({ type: 'requeued', step: 'pay', answer: 'notDone', by })
    expect(again.claim('pay').call).toEqual({ step: 'pay', kind: 'step', attempt: 1 })
    const done = new Simulation(once(true)).start()
    fail(done, 'pay', transient)
    done.apply({ type: 'requeued', step: 'pay', answer: { done: payload({ receipt: 7 }) }, by })
    expect(done.state.steps.get('ship')?.input).toEqual(payload({ receipt: 7 }))
    expect(done.events.find(({ type }) => type === 'dlq_requeued')).toMatchObject({ ...by, detail: { answer: 'done' } })
    done.complete('ship')
    expect(done.state.status).toBe('COMPLETED')
    expect(done.deadLetters.size).toBe(0)
  })

  it('a compensation likewise: unknown, it waits for a person, who says what became of it', () => {
    const stuck = () => {
      const run = new Simulation(once(false)).start()
      fail(run, 'pay', transient)
      run.claim('pay', 'compensation')
      run.apply({ type: 'compensation_failed', step: 'pay', failure: transient })
      expect(run.deadLetters.get('pay')).toMatchObject({ kind: 'compensation', failure: { code: 'OUTCOME_UNKNOWN' } })
      expect(run.state.status).toBe('FAILED')
      return run
    }
    const done = stuck()
    done.apply({ type: 'requeued', step: 'pay', answer: { done: payload(null) }, by })
    expect(done.statuses()).toEqual({ pay: 'ROLLED_BACK' })
    expect(done.queue.size).toBe(0)
    const again = stuck()
    again.apply({ type: 'requeued', step: 'pay', answer: 'notDone', by })
    expect(again.claim('pay', 'compensation').call).toEqual({ step: 'pay', kind: 'compensation', attempt: 1 })
    const asked = stuck()
    asked.apply({ type: 'requeued', step: 'pay', by })
    expect(asked.claim('pay', 'compensation').call).toMatchObject({ attempt: 1, inquire: 'first' })
    const refused = new Simulation(once(false)).start()
    fail(refused, 'pay', transient)
    refused.claim('pay', 'compensation')
    refused.apply({ type: 'compensation_failed', step: 'pay', failure: business })
    expect(refused.waiting()).toEqual(['compensation pay'])
  })

  it('a compensation that was stopped in order is inquired about before it is called again; one that never began is not', () => {
    const run = new Simulation(once(false)).start()
    fail(run, 'pay', transient)
    run.claim('pay', 'compensation')
    run.apply({ type: 'released', step: 'pay', kind: 'compensation', because: 'stopping' })
    expect(run.claim('pay', 'compensation').call).toEqual({ step: 'pay', kind: 'compensation', attempt: 1 })
    run.apply({ type: 'interrupted', step: 'pay', kind: 'compensation' })
    expect(run.claim('pay', 'compensation').call).toMatchObject({ attempt: 1, inquire: 'first' })
  })

  it('a failure that the engine itself finds never counts as a refusal', () => {
    const lost = defineWorkflow('test', 'w')
      .step('a', 'A', { retry: { maxAttempts: 1 } })
      .onFailure('u', 'U')
      .build()
    const run = new Simulation(lost).start()
    run.claim('a')
    run.claim('a')
    expect(run.state.failure?.failure).toMatchObject({ code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' })
    expect(run.state.failure?.failure.refused).toBeUndefined()
    expect(run.state.steps.get('a')?.outcome).toBe('unknown')
    expect(classifyFailure(new BusinessError('no'), { unknown: 'transient' }).refused).toBe(true)
  })
})
