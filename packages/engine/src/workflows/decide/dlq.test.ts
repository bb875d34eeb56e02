import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { business, chain, fail, forked, transient } from '../simulation/samples.js'
import { by, payload, Simulation } from '../simulation/simulation.js'

describe('W-09 the DLQ', () => {
  it('pauses the step, freezes what is queued, lets what runs finish, and undoes nothing', () => {
    const three = defineWorkflow('test', 'three', { dlq: true })
      .fork(
        'f',
        (b) => b.step('a', 'H'),
        (b) => b.step('b', 'H').step('b2', 'H'),
        (b) => b.step('c', 'H'),
      )
      .join('j', 'all')
      .step('last', 'H')
      .build()
    const run = new Simulation(three, { n: 1 }).start()
    run.claim('b')
    fail(run, 'a')
    expect(run.state).toMatchObject({ status: 'DLQ', failure: { step: 'a' } })
    expect(run.statuses()).toMatchObject({ a: 'PAUSED', b: 'RUNNING', c: 'PAUSED', j: 'PENDING' })
    expect(run.waiting()).toEqual([])
    expect(run.deadLetters.get('a')).toMatchObject({
      kind: 'step',
      type: 'task',
      input: payload({ n: 1 }),
      failure: { code: 'DECLINED' },
    })
    run.apply({ type: 'completed', step: 'b', output: payload('B') })
    expect(run.statuses()).toMatchObject({ b: 'COMPLETED', b2: 'PAUSED' })
    run.apply({ type: 'requeued', step: 'a', input: payload({ n: 2 }), by })
    expect(run.state).toMatchObject({ status: 'RUNNING', failure: null })
    expect(run.state.steps.get('a')).toMatchObject({
      status: 'PENDING',
      attempts: 0,
      failure: null,
      order: null,
      input: payload({ n: 2 }),
    })
    expect(run.deadLetters.size).toBe(0)
    run.complete('a').complete('c').complete('b2').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    expect(run.events.find(({ type }) => type === 'dlq_created')).toMatchObject({
      step: 'a',
      detail: { frozen: ['c'] },
    })
    expect(run.events.find(({ type }) => type === 'dlq_requeued')).toMatchObject({
      actor: 'ann',
      detail: { resumed: ['c', 'b2'] },
    })
  })

  it('events say the error of a failure, and what a person found out only where that was said', () => {
    const one = defineWorkflow('test', 'one', { dlq: true }).step('a', 'H').build()
    const requeued = (answer?: 'notDone') => {
      const run = new Simulation(one, null).start()
      fail(run, 'a')
      expect(run.events.find(({ type }) => type === 'step_failed')).toMatchObject({
        step: 'a',
        error: { code: 'DECLINED', message: expect.any(String) },
      })
      run.apply({ type: 'requeued', step: 'a', by, ...(answer ? { answer } : {}) })
      return run.events.find(({ type }) => type === 'dlq_requeued')
    }
    expect(requeued('notDone')).toMatchObject({ detail: { answer: 'notDone' } })
    expect(requeued()).not.toHaveProperty('detail')
    expect(requeued()).not.toHaveProperty('error')
  })

  it('a join that is ready while the instance is frozen fires when it is unfrozen', () => {
    const inner = defineWorkflow('test', 'inner', { dlq: true })
      .fork(
        'f',
        (b) => b.step('a', 'H'),
        (b) =>
          b
            .fork(
              'g',
              (c) => c.step('c', 'H'),
              (c) => c.step('d', 'H'),
            )
            .join('k', 'all')
            .step('e', 'H'),
        (b) =>
          b.parallel(
            'p',
            (c) => c.step('x', 'H'),
            (c) => c.step('y', 'H'),
          ),
      )
      .join('j', 'all')
      .build()
    const run = new Simulation(inner).start()
    for (const step of ['c', 'd', 'x', 'y']) run.claim(step)
    fail(run, 'a')
    for (const step of ['c', 'd', 'x', 'y']) run.apply({ type: 'completed', step, output: payload(step) })
    expect(run.statuses()).toMatchObject({ k: 'PAUSED', p: 'RUNNING' })
    run.apply({ type: 'requeued', step: 'a', by })
    expect(run.statuses()).toMatchObject({ k: 'COMPLETED', p: 'COMPLETED', e: 'PENDING' })
    run.complete('e').complete('a')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('several failed branches are requeued independently, and an instance that only waits for one says so', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.apply({ type: 'failed', step: 'l1', failure: business })
    expect([...run.deadLetters.keys()]).toEqual(['r1', 'l1'])
    run.apply({ type: 'requeued', step: 'l1', by })
    expect(run.state.status).toBe('RUNNING')
    expect(run.statuses()).toMatchObject({ r1: 'PAUSED' })
    run.complete('l1').complete('l2')
    expect(run.state).toMatchObject({ status: 'DLQ', failure: { step: 'r1' } })
    run.apply({ type: 'requeued', step: 'r1', by })
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('a running sibling that fails with attempts left waits for the instance to be unfrozen, its attempts kept; a lost one too', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.apply({ type: 'failed', step: 'l1', failure: transient })
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', dlq: false, attempts: 1 })
    run.apply({ type: 'requeued', step: 'r1', by })
    run.claim('l1')
    expect(run.state.steps.get('l1')?.attempts).toBe(2)
    fail(run, 'r1')
    run.claim('l1')
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', dlq: false, failure: { code: 'CALL_LOST' } })
  })

  it('a step that is released while the instance is frozen waits until it is unfrozen', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.apply({ type: 'released', step: 'l1', kind: 'step', because: 'stopping' })
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', attempts: 0 })
    run.apply({ type: 'requeued', step: 'r1', by })
    expect(run.waiting()).toEqual(['step r1', 'step l1'])
  })

  it('a condition that could not be evaluated is evaluated again, with the new input', () => {
    const workflow = defineWorkflow('test', 'w', { dlq: true }).condition('c', '{{ gt .n 1 }}').step('a', 'H').build()
    const run = new Simulation(workflow, 5).start()
    expect(run.state.status).toBe('DLQ')
    run.apply({ type: 'requeued', step: 'c', input: payload('still wrong'), by })
    expect(run.state.status).toBe('DLQ')
    expect(run.deadLetters.get('c')?.input).toEqual(payload('still wrong'))
    run.apply({ type: 'requeued', step: 'c', input: payload({ n: 2 }), by })
    expect(run.waiting()).toEqual(['step a'])
  })

  it('any: a failed branch waits in the DLQ while the others go on, and can no longer be retried when one of them wins', () => {
    const run = new Simulation(forked('any', true)).start().complete('first')
    fail(run, 'r1')
    expect(run.state.status).toBe('RUNNING')
    expect(run.deadLetters.has('r1')).toBe(true)
    run.complete('l1').complete('l2')
    expect(run.statuses()).toMatchObject({ r1: 'FAILED', join: 'COMPLETED' })
    expect(run.deadLetters.size).toBe(0)
    run.complete('last')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('any: all branches failed = the instance is in the DLQ; one that is requeued and succeeds wins', () => {
    const run = new Simulation(forked('any', true)).start().complete('first')
    fail(run, 'r1')
    fail(run, 'l1')
    expect(run.state.status).toBe('DLQ')
    run.apply({ type: 'requeued', step: 'r1', by })
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    expect(run.statuses()).toMatchObject({ l1: 'FAILED' })
  })

  it.each(['a', 'c'])('refuses to requeue `%s`, which has no record', (step) => {
    const run = new Simulation(chain).start()
    expect(() => run.apply({ type: 'requeued', step, by })).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS' }),
    )
  })

  it('refuses to requeue a step that does not exist, naming the nearest', () => {
    const run = new Simulation(forked('all')).start()
    expect(() => run.apply({ type: 'requeued', step: 'frist', by })).toThrow(
      expect.objectContaining({ code: 'HF_UNKNOWN_STEP', message: expect.stringContaining('did you mean `first`?') }),
    )
  })
})
