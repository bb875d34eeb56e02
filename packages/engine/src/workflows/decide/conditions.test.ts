import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { payload, Simulation } from '../simulation/simulation.js'
import { decide } from './decide.js'

const conditional = (otherwise: boolean) => {
  const start = defineWorkflow('test', 'conditional')
  const condition = otherwise
    ? start.condition('big', '{{ gt .n 100 }}', (b) => b.step('small', 'H'))
    : start.condition('big', '{{ gt .n 100 }}')
  return condition.step('large', 'H').build()
}

describe('W-16 conditions', () => {
  it('true goes on with what follows, and passes its own input on', () => {
    const run = new Simulation(conditional(true), { n: 101 }).start()
    expect(run.waiting()).toEqual(['step large'])
    expect(run.state.steps.get('large')?.input).toEqual(payload({ n: 101 }))
    expect(run.events[1]).toMatchObject({ type: 'condition_evaluated', step: 'big', detail: { result: true } })
  })

  it('false takes the else branch, which ends where it ends', () => {
    const run = new Simulation(conditional(true), { n: 100 }).start()
    run.complete('small', 'done')
    expect(run.state).toMatchObject({ status: 'COMPLETED', output: payload('done') })
    expect(run.state.steps.has('large')).toBe(false)
  })

  it('false without an else completes the instance at top level', () => {
    const run = new Simulation(conditional(false), { n: 1 }).start()
    expect(run.state).toMatchObject({ status: 'COMPLETED', output: payload({ n: 1 }) })
  })

  it('W-07 in a branch it ends that branch, and the join waits for the others', () => {
    const branched = defineWorkflow('test', 'branched')
      .fork(
        'f',
        (b) => b.condition('c1', '{{ .yes }}').step('a', 'H'),
        (b) => b.condition('c2', '{{ .no }}').step('b', 'H'),
        (b) => b.condition('c3', '{{ .no }}', (e) => e.step('c', 'H')).step('d', 'H'),
      )
      .join('j', 'all')
      .step('last', 'H')
      .build()
    const run = new Simulation(branched, { yes: true }).start()
    expect(run.waiting()).toEqual(['step a', 'step c'])
    run.complete('c', 'C')
    expect(run.statuses()).toMatchObject({ j: 'PENDING' })
    run.complete('a', 'A')
    expect(run.state.steps.get('last')?.input).toEqual(payload({ c1: 'A', c2: { yes: true }, c3: 'C' }))
  })

  it('W-06 a condition that cannot be evaluated fails, and earlier steps are undone', () => {
    const workflow = defineWorkflow('test', 'w')
      .step('a', 'H')
      .onFailure('u', 'U')
      .fork(
        'f',
        (b) => b.step('b', 'H'),
        (b) => b.condition('c', '{{ gt .n 1 }}'),
        (b) => b.step('d', 'H'),
      )
      .join('j', 'all')
      .build()
    const run = new Simulation(workflow).start().complete('a', 'not an object')
    expect(run.state.failure).toMatchObject({
      step: 'c',
      failure: { code: 'HF_CONDITION_UNEVALUABLE', message: expect.stringContaining('the input is a text') },
    })
    run.compensate('a')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ b: 'SKIPPED', c: 'ROLLED_BACK', f: 'ROLLED_BACK', j: 'SKIPPED' })
    expect(run.calls.filter(({ step }) => step === 'b' || step === 'd')).toEqual([])
  })

  it('an error that is not about the condition is not taken for one', () => {
    const broken = {
      reveal: () => {
        throw new TypeError('no key')
      },
      combine: () => payload(null),
    }
    const { state, definition } = new Simulation(conditional(false))
    expect(() => decide(definition, state, { type: 'started' }, { payloads: broken })).toThrow('no key')
  })
})
