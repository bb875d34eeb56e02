import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { business, chain, fail, failUndo, forked, human, transient } from '../simulation/samples.js'
import { by, payload, Simulation } from '../simulation/simulation.js'

describe('W-10 human steps', () => {
  it('wait for a decision; confirmed, their own input goes on at once', () => {
    const run = new Simulation(human).start().complete('a', { n: 1 })
    expect(run.statuses()).toMatchObject({ ok: 'WAITING_DECISION' })
    const { humanDecisions, enqueue } = run.apply({ type: 'decided', step: 'ok', decision: 'confirm', by })
    expect(humanDecisions).toEqual([{ step: 'ok', decision: 'confirm', ...by }])
    expect(enqueue).toMatchObject([{ step: 'b', delayMs: 0 }])
    expect(run.state.steps.get('b')?.input).toEqual(payload({ n: 1 }))
    expect(run.events.at(-1)).toMatchObject({
      type: 'decision_made',
      step: 'ok',
      status: 'CONFIRMED',
      actor: 'ann',
      reason: 'test',
    })
  })

  it('rejected, the instance is aborted: nothing is undone, what runs is told to stop', () => {
    const run = new Simulation(human).start().complete('a')
    run.claim('c')
    run.apply({ type: 'decided', step: 'ok', decision: 'reject', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.statuses()).toMatchObject({ a: 'COMPLETED', ok: 'REJECTED', c: 'SKIPPED', j: 'SKIPPED' })
    expect(run.aborted).toEqual(['c'])
  })

  it('a second decision is refused, and one on a step that does not wait', () => {
    const run = new Simulation(human).start()
    const decided = (step: string) => () => run.apply({ type: 'decided', step, decision: 'confirm', by })
    expect(decided('ok')).toThrow(/cannot be decided: it is not reached yet/)
    run.complete('a')
    decided('ok')()
    expect(decided('ok')).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS', message: expect.stringContaining('CONFIRMED') }),
    )
    expect(decided('c')).toThrow(expect.objectContaining({ code: 'HF_WRONG_STATUS' }))
    expect(decided('okay')).toThrow(expect.objectContaining({ code: 'HF_UNKNOWN_STEP' }))
  })

  it('can be decided while the instance is in the DLQ; it goes on when it is unfrozen', () => {
    const workflow = defineWorkflow('test', 'w', { dlq: true })
      .fork(
        'f',
        (b) => b.waitHumanConfirm('ok').step('b', 'H'),
        (b) => b.step('c', 'H'),
      )
      .join('j', 'all')
      .build()
    const run = new Simulation(workflow).start()
    fail(run, 'c')
    run.apply({ type: 'decided', step: 'ok', decision: 'confirm', by })
    expect(run.statuses()).toMatchObject({ ok: 'CONFIRMED', b: 'PAUSED' })
    run.apply({ type: 'requeued', step: 'c', by })
    run.complete('c').complete('b')
    expect(run.state.status).toBe('COMPLETED')
  })
})

describe('W-11 cancel', () => {
  it('skips what is under way and waits, undoes what was done, and ends CANCELLED', () => {
    const run = new Simulation(human).start().complete('a')
    run.apply({ type: 'decided', step: 'ok', decision: 'confirm', by })
    run.claim('c')
    run.apply({ type: 'cancel', by })
    expect(run.state.status).toBe('CANCELLING')
    expect(run.statuses()).toMatchObject({ c: 'SKIPPED', b: 'SKIPPED', j: 'SKIPPED' })
    expect(run.aborted).toEqual(['c'])
    expect(run.waiting()).toEqual([])
    run.apply({ type: 'failed', step: 'c', failure: transient })
    run.compensate('ok').compensate('a')
    expect(run.state.status).toBe('CANCELLED')
    expect(run.statuses()).toMatchObject({ b: 'SKIPPED', c: 'ROLLED_BACK', ok: 'ROLLED_BACK', a: 'ROLLED_BACK' })
    expect(run.events.at(-1)).toMatchObject({ type: 'workflow_cancelled' })
    expect(run.events.find(({ type }) => type === 'cancellation_started')).toMatchObject(by)
  })

  it('a step that completes anyway is recorded and undone, before those that completed earlier', () => {
    const run = new Simulation(forked('all')).start().complete('first').complete('l1')
    run.claim('r1')
    run.apply({ type: 'cancel', by })
    run.apply({ type: 'completed', step: 'r1', output: payload(1) })
    run.compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('a step whose worker dies is undone: its outcome is unknown', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('r1')
    run.apply({ type: 'cancel', by })
    expect(run.claim('r1').call).toBeNull()
    run.compensate('r1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('is prompt from a human step, from before the start, and when nothing was done', () => {
    const waiting = new Simulation(defineWorkflow('test', 'w').waitHumanConfirm('ok').build()).start()
    waiting.apply({ type: 'cancel', by })
    expect(waiting.state.status).toBe('CANCELLED')
    expect(() => waiting.apply({ type: 'decided', step: 'ok', decision: 'confirm', by })).toThrow('it is SKIPPED')
    const pending = new Simulation(chain)
    pending.apply({ type: 'cancel', by })
    expect(pending.state.status).toBe('CANCELLED')
  })

  it('from the DLQ undoes what was done, the failed step first, and removes its record', () => {
    const run = new Simulation(forked('all', true)).start().complete('first').complete('l1')
    fail(run, 'r1')
    run.apply({ type: 'cancel', by })
    expect(run.deadLetters.size).toBe(0)
    expect(run.statuses()).toMatchObject({ l2: 'SKIPPED' })
    run.compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('ends FAILED, with a record, if a compensation failed for good', () => {
    const run = new Simulation(chain).start().complete('a')
    run.apply({ type: 'cancel', by })
    for (let attempt = 1; attempt <= 3; attempt += 1) failUndo(run, 'a')
    expect(run.state).toMatchObject({ status: 'FAILED', failure: { step: 'a' } })
    expect(run.deadLetters.has('a')).toBe(true)
  })

  it('while it rolls back, ends CANCELLED', () => {
    const run = new Simulation(chain).start().complete('a')
    fail(run, 'b')
    run.apply({ type: 'cancel', by })
    run.compensate('a')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('a second cancel changes nothing; it is refused when the instance has ended otherwise', () => {
    const run = new Simulation(chain).start().complete('a')
    run.apply({ type: 'cancel', by })
    expect(run.apply({ type: 'cancel', by })).toMatchObject({ events: [], steps: [] })
    run.compensate('a')
    expect(run.apply({ type: 'cancel', by })).toMatchObject({ events: [], steps: [] })
    expect(() => run.apply({ type: 'abort', by })).toThrow('cannot be cancelled: it is CANCELLED')
    const done = new Simulation(chain).start().complete('a').complete('b').complete('c')
    expect(() => done.apply({ type: 'cancel', by })).toThrow('cannot be cancelled: it is COMPLETED')
  })
})

describe('W-11 abort', () => {
  it('stops at once and undoes nothing; a handler that completes anyway is recorded', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    run.apply({ type: 'abort', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.aborted).toEqual(['l1'])
    expect(run.statuses()).toMatchObject({ first: 'COMPLETED', l1: 'SKIPPED', r1: 'SKIPPED', join: 'SKIPPED' })
    run.apply({ type: 'completed', step: 'l1', output: payload(1) })
    expect(run.statuses()).toMatchObject({ l1: 'COMPLETED' })
    expect(run.queue.size).toBe(0)
    expect(run.apply({ type: 'abort', by }).events).toEqual([])
    expect(() => run.apply({ type: 'cancel', by })).toThrow('cannot be cancelled: it is ABORTED')
  })

  it('the queued item of a worker that died is removed', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    run.apply({ type: 'abort', by })
    expect(run.claim('l1').call).toBeNull()
    expect(run.queue.size).toBe(0)
  })

  it('from the DLQ removes the record', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    fail(run, 'r1')
    run.apply({ type: 'abort', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.deadLetters.size).toBe(0)
  })

  it.each(['queued', 'completes', 'fails', 'dies', 'is given back'])(
    'stops a rollback: a compensation that %s leaves the step as it was, or undone',
    (fate) => {
      const run = new Simulation(chain).start().complete('a')
      fail(run, 'b')
      if (fate !== 'queued') run.claim('a', 'compensation')
      run.apply({ type: 'abort', by })
      expect(run.state.status).toBe('ABORTED')
      if (fate === 'completes') run.apply({ type: 'compensated', step: 'a' })
      if (fate === 'fails') run.apply({ type: 'compensation_failed', step: 'a', failure: business })
      if (fate === 'dies') run.claim('a', 'compensation')
      if (fate === 'is given back')
        run.apply({ type: 'released', step: 'a', kind: 'compensation', because: 'stopping' })
      expect(run.statuses()).toMatchObject({ a: fate === 'completes' ? 'ROLLED_BACK' : 'COMPLETED' })
      expect(run.queue.size).toBe(0)
    },
  )

  it('leaves a confirmed and a failed step as they were', () => {
    const run = new Simulation(human).start().complete('a')
    run.apply({ type: 'decided', step: 'ok', decision: 'confirm', by })
    fail(run, 'c')
    expect(run.statuses()).toMatchObject({ ok: 'COMPENSATING' })
    run.apply({ type: 'abort', by })
    expect(run.statuses()).toMatchObject({ ok: 'CONFIRMED' })
    const other = new Simulation(chain).start()
    fail(other, 'a')
    other.apply({ type: 'abort', by })
    expect(other.statuses()).toMatchObject({ a: 'FAILED' })
  })

  it('keeps the record of a compensation that failed before, and reruns that one only', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    failUndo(run, 'c')
    failUndo(run, 'c')
    run.apply({ type: 'abort', by })
    run.apply({ type: 'requeued', step: 'c', by })
    run.compensate('c')
    expect(run.statuses()).toMatchObject({ a: 'COMPLETED', b: 'ROLLED_BACK', c: 'ROLLED_BACK' })
    expect(run.state.status).toBe('ABORTED')
  })
})
