import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { business, chain, fail, permanent, transient } from '../simulation/samples.js'
import { payload, Simulation } from '../simulation/simulation.js'

describe('W-05 a chain of steps', () => {
  it('gives the output of each step to the next, and the last is the output of the instance', () => {
    const run = new Simulation(chain, { from: 'outside' }).start()
    expect(run.state.steps.get('a')?.input).toEqual(payload({ from: 'outside' }))
    run.complete('a', 1).complete('b', [2])
    expect(run.state.steps.get('c')?.input).toEqual(payload([2]))
    run.complete('c', { three: 3 })
    expect(run.state).toMatchObject({ status: 'COMPLETED', output: payload({ three: 3 }) })
    expect(run.eventTypes()).toEqual([
      'workflow_started',
      'step_started a',
      'step_completed a',
      'step_started b',
      'step_completed b',
      'step_started c',
      'step_completed c',
      'workflow_completed',
    ])
  })

  it('W-01 queues with the delay and priority of the step, and the handler by which it is claimed', () => {
    const run = new Simulation(chain).start().complete('a')
    run.claim('b')
    const { enqueue, remove } = run.apply({ type: 'completed', step: 'b', output: payload(null) })
    expect(enqueue).toEqual([{ step: 'c', kind: 'step', handler: 'C', delayMs: 5000, priority: 80 }])
    expect(remove).toEqual([{ step: 'b', kind: 'step' }])
  })

  it('starts once', () => {
    const run = new Simulation(chain).start()
    expect(run.apply({ type: 'started' })).toMatchObject({ instance: {}, steps: [], events: [] })
  })

  it('changes nothing when a report comes too late, or of a step that was never reached', () => {
    const run = new Simulation(chain).start().complete('a')
    for (const type of ['compensated', 'completed', 'failed', 'compensation_failed', 'released'] as const) {
      for (const step of ['a', 'c']) {
        const late = { type, step, output: payload(1), failure: business, kind: 'step', because: 'stopping' } as const
        expect(run.apply(late)).toMatchObject({ steps: [], enqueue: [], remove: [], events: [] })
        if (type === 'released') run.apply({ type, step, kind: 'compensation', because: 'stopping' })
      }
    }
    expect(run.waiting()).toEqual(['step b'])
    const missing = { type: 'released', step: 'a', kind: 'step', because: 'handler_missing' } as const
    expect(run.apply(missing)).toMatchObject({ steps: [], enqueue: [], events: [] })
  })

  it('removes a queued item whose step no longer needs it', () => {
    const run = new Simulation(chain).start().complete('a')
    for (const kind of ['step', 'compensation'] as const) {
      const decision = run.apply({ type: 'claimed', step: 'a', kind })
      expect(decision).toMatchObject({ call: null, steps: [], remove: [{ step: 'a', kind }] })
    }
  })
})

describe('W-01 attempts', () => {
  it('maxAttempts is the number of calls: retried after the delays of the policy, then given up', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    expect(fail(run, 'c', transient).enqueue).toMatchObject([{ step: 'c', delayMs: 1000 }])
    expect(fail(run, 'c', transient).enqueue).toMatchObject([{ step: 'c', delayMs: 10_000 }])
    fail(run, 'c', transient)
    expect(run.calls.filter(({ step }) => step === 'c').map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    expect(run.state.status).toBe('ROLLING_BACK')
    expect(run.events.filter(({ type }) => type === 'step_retry').map(({ attempts }) => attempts)).toEqual([1, 2])
  })

  it.each([
    ['business', business],
    ['permanent', permanent],
  ])('K-08 a %s failure is not retried', (_, failure) => {
    const run = new Simulation(chain).start()
    fail(run, 'a', failure)
    expect(run.state).toMatchObject({ status: 'ROLLING_BACK', failure: { step: 'a', failure } })
  })

  it('a call that was lost in a crash counts, and is made again while attempts are left', () => {
    const run = new Simulation(chain).start()
    run.claim('a')
    expect(run.claim('a').call).toEqual({ step: 'a', kind: 'step', attempt: 2 })
    run.claim('a')
    expect(run.claim('a').call).toBeNull()
    expect(run.state.steps.get('a')?.failure?.code).toBe('ATTEMPTS_EXHAUSTED_BY_CRASH')
    expect(run.calls).toHaveLength(3)
  })

  it('a non-idempotent step is called once, whatever happens to the call; it counts as failed', () => {
    const once = defineWorkflow('test', 'once').step('a', 'A', { nonIdempotent: true }).onFailure('u', 'U').build()
    const crashed = new Simulation(once).start()
    crashed.claim('a')
    expect(crashed.claim('a').call).toBeNull()
    expect(crashed.state.steps.get('a')?.failure?.code).toBe('OUTCOME_UNKNOWN')
    expect(crashed.waiting()).toEqual(['compensation a'])
    const failed = new Simulation(once).start()
    fail(failed, 'a', transient)
    expect(failed.state.status).toBe('ROLLING_BACK')
  })

  it('W-04 a step claimed without a handler is released for about 5 s, its attempts unchanged', () => {
    for (const [chance, delayMs] of [
      [0, 4000],
      [0.5, 5000],
      [1, 6000],
    ] as const) {
      const run = new Simulation(chain, {}, () => chance).start()
      run.claim('a')
      const { enqueue } = run.apply({ type: 'released', step: 'a', kind: 'step', because: 'handler_missing' })
      expect(enqueue).toMatchObject([{ step: 'a', delayMs }])
      expect(run.state.steps.get('a')).toMatchObject({ status: 'PENDING', attempts: 0 })
      expect(run.eventTypes()).toContain('step_skipped_missing_handler a')
    }
  })

  it('W-04 so is a compensation', () => {
    const run = new Simulation(chain).start()
    fail(run, 'a')
    run.claim('a', 'compensation')
    run.apply({ type: 'released', step: 'a', kind: 'compensation', because: 'handler_missing' })
    expect(run.state.steps.get('a')).toMatchObject({ status: 'COMPENSATING', compensationAttempts: 0 })
    expect(run.queue.get('compensation a')).toMatchObject({ delayMs: 5000 })
  })

  it('a step that a stopping worker releases is due at once, without an event', () => {
    const run = new Simulation(chain).start()
    run.claim('a')
    const { enqueue, events } = run.apply({ type: 'released', step: 'a', kind: 'step', because: 'stopping' })
    expect(enqueue).toMatchObject([{ delayMs: 0 }])
    expect(events).toEqual([])
  })
})
