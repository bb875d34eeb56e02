import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { chain, fail, failUndo, forked, transient } from '../simulation/samples.js'
import { by, payload, Simulation } from '../simulation/simulation.js'

describe('W-08 rollback', () => {
  it("the failing step's own compensation first, then the completed ones backwards, one after the other", () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    expect(run.waiting()).toEqual(['compensation c'])
    expect(run.queue.get('compensation c')).toMatchObject({ handler: 'UndoC', delayMs: 7, priority: 80 })
    expect(run.state.status).toBe('ROLLING_BACK')
    run.compensate('c')
    expect(run.statuses()).toMatchObject({ b: 'ROLLED_BACK', a: 'COMPENSATING' })
    expect(run.state.status).toBe('ROLLING_BACK')
    run.compensate('a')
    expect(run.statuses()).toEqual({ a: 'ROLLED_BACK', b: 'ROLLED_BACK', c: 'ROLLED_BACK' })
    expect(run.state).toMatchObject({ status: 'FAILED', failure: { step: 'c', failure: { code: 'DECLINED' } } })
    expect(run.events.at(-1)).toMatchObject({
      type: 'workflow_failed',
      error: { code: 'DECLINED', message: 'declined' },
    })
  })

  it('a sibling that finishes after the failure is undone too, before those that completed earlier; pending ones are skipped', () => {
    const run = new Simulation(forked('all')).start().complete('first').complete('l1')
    run.claim('l2')
    fail(run, 'r1')
    expect(run.statuses()).toMatchObject({ l2: 'RUNNING', join: 'SKIPPED' })
    // K-19: it is called off, and waited for before anything is undone.
    expect(run.aborted).toEqual(['l2'])
    expect(run.waiting()).toEqual([])
    run.apply({ type: 'completed', step: 'l2', output: payload(1) })
    run.compensate('r1').compensate('l2').compensate('l1').compensate('first')
    expect(run.state.status).toBe('FAILED')
  })

  it('a sibling that fails after the failure is not tried again; its own compensation has its turn', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.apply({ type: 'failed', step: 'l1', failure: transient })
    run.compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('FAILED')
  })

  it('a sibling whose worker dies meanwhile counts as failed; one that was never called is skipped', () => {
    const dies = new Simulation(forked('all')).start().complete('first')
    dies.claim('l1')
    fail(dies, 'r1')
    dies.claim('l1')
    dies.compensate('r1').compensate('l1').compensate('first')
    expect(dies.state.status).toBe('FAILED')
    const back = new Simulation(forked('all')).start().complete('first')
    back.claim('l1')
    fail(back, 'r1')
    back.apply({ type: 'released', step: 'l1', kind: 'step', because: 'stopping' })
    back.compensate('r1').compensate('first')
    expect(back.state.status).toBe('FAILED')
    expect(back.statuses()).toMatchObject({ l1: 'SKIPPED' })
  })

  it('stops at the nearest save point', () => {
    const saved = defineWorkflow('test', 'saved')
      .step('a', 'H')
      .onFailure('ua', 'U')
      .savePoint('s1')
      .step('b', 'H')
      .onFailure('ub', 'U')
      .savePoint('s2')
      .step('c', 'H')
      .onFailure('uc', 'U')
      .step('d', 'H')
      .build()
    const run = new Simulation(saved).start().complete('a').complete('b').complete('c')
    fail(run, 'd')
    run.compensate('c')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toEqual({
      a: 'COMPLETED',
      s1: 'COMPLETED',
      b: 'COMPLETED',
      s2: 'COMPLETED',
      c: 'ROLLED_BACK',
      d: 'ROLLED_BACK',
    })
  })

  it('a save point also keeps a branch that lost before it and ended after it', () => {
    const saved = defineWorkflow('test', 'saved')
      .fork(
        'f',
        (b) => b.step('slow', 'H').onFailure('us', 'U'),
        (b) => b.step('fast', 'H').onFailure('uf', 'U'),
      )
      .join('j', 'any')
      .savePoint('s')
      .step('c', 'H')
      .build()
    const run = new Simulation(saved).start()
    run.claim('slow')
    run.complete('fast')
    run.apply({ type: 'completed', step: 'slow', output: payload(1) })
    fail(run, 'c')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ slow: 'COMPLETED', fast: 'COMPLETED', c: 'ROLLED_BACK' })
  })

  it('undoes only the side of a condition that was taken', () => {
    const workflow = defineWorkflow('test', 'w')
      .condition('c', '{{ .no }}', (b) => b.step('else', 'H').onFailure('ue', 'U').step('fails', 'H'))
      .step('then', 'H')
      .onFailure('ut', 'U')
      .build()
    const run = new Simulation(workflow).start().complete('else')
    fail(run, 'fails')
    run.compensate('else')
    expect(run.statuses()).toEqual({ c: 'ROLLED_BACK', else: 'ROLLED_BACK', fails: 'ROLLED_BACK' })
  })

  it('K-08 a compensation is retried whatever failed; exhausted it makes a dead letter, and the rest still run', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    expect(failUndo(run, 'c').enqueue).toMatchObject([{ step: 'c', kind: 'compensation', delayMs: 2000 }])
    failUndo(run, 'c')
    expect(run.deadLetters.get('c')).toMatchObject({
      kind: 'compensation',
      type: 'task',
      failure: { code: 'DECLINED' },
    })
    run.compensate('a')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toEqual({ a: 'ROLLED_BACK', b: 'ROLLED_BACK', c: 'FAILED' })
    expect(run.eventTypes()).toEqual(
      expect.arrayContaining(['compensation_retry c', 'compensation_max_retries_exceeded c', 'dlq_created c']),
    )
  })

  it('requeueing that record reruns that compensation only', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    failUndo(run, 'c')
    failUndo(run, 'c')
    run.compensate('a')
    run.apply({ type: 'requeued', step: 'c', input: payload('fixed'), by })
    expect(run.waiting()).toEqual(['compensation c'])
    expect(run.state.steps.get('c')).toMatchObject({ input: payload('fixed'), compensationAttempts: 0 })
    run.compensate('c')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ c: 'ROLLED_BACK' })
    expect(() => run.apply({ type: 'requeued', step: 'c', by })).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS' }),
    )
  })

  it('requeued while the others are being undone, it waits for its turn; failing again creates the record again', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    failUndo(run, 'c')
    failUndo(run, 'c')
    run.claim('a', 'compensation')
    run.apply({ type: 'requeued', step: 'c', by })
    expect(run.waiting()).toEqual([])
    run.apply({ type: 'compensated', step: 'a' })
    expect(run.waiting()).toEqual(['compensation c'])
    failUndo(run, 'c')
    failUndo(run, 'c')
    expect(run.state.status).toBe('FAILED')
    expect([...run.deadLetters.keys()]).toEqual(['c'])
  })

  it('a compensation that was lost in a crash is called again while attempts are left; a non-idempotent one never', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    run.claim('c', 'compensation')
    expect(run.claim('c', 'compensation').call).toEqual({ step: 'c', kind: 'compensation', attempt: 2 })
    expect(run.claim('c', 'compensation').call).toBeNull()
    expect(run.deadLetters.get('c')?.failure.code).toBe('ATTEMPTS_EXHAUSTED_BY_CRASH')
    const once = defineWorkflow('test', 'once').step('a', 'A').onFailure('u', 'U', { nonIdempotent: true }).build()
    const other = new Simulation(once).start()
    fail(other, 'a')
    other.claim('a', 'compensation')
    expect(other.claim('a', 'compensation').call).toBeNull()
    expect(other.deadLetters.get('a')?.failure.code).toBe('OUTCOME_UNKNOWN')
  })
})
