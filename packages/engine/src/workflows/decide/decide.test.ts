import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError, PermanentError } from '../../kernel/failure/failure-errors.js'
import { defineWorkflow } from '../define.js'
import { by, payload, Simulation } from '../simulation/simulation.js'
import { decide } from './decide.js'

const transient = classifyFailure(new Error('try again'), { unknown: 'transient' })
const business = classifyFailure(new BusinessError('declined', { code: 'DECLINED' }), { unknown: 'transient' })
const permanent = classifyFailure(new PermanentError('broken'), { unknown: 'transient' })

const fail = (simulation: Simulation, step: string, failure = business) => {
  simulation.claim(step)
  return simulation.happen({ type: 'failed', step, failure })
}
const failUndo = (simulation: Simulation, step: string) => {
  simulation.claim(step, 'compensation')
  return simulation.happen({ type: 'compensation_failed', step, failure: business })
}

const chain = defineWorkflow('chain', 1)
  .step('a', 'A')
  .onFailure('undo a', 'UndoA')
  .step('b', 'B')
  .step('c', 'C', { delay: '5s', priority: 80, retry: ['1s', '10s'] })
  .onFailure('undo c', 'UndoC', { maxAttempts: 2, retry: ['2s'], delay: 7 })
  .build()

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
    const { enqueue, remove } = run.happen({ type: 'completed', step: 'b', output: payload(null) })
    expect(enqueue).toEqual([{ step: 'c', kind: 'step', handler: 'C', delayMs: 5000, priority: 80 }])
    expect(remove).toEqual([{ step: 'b', kind: 'step' }])
  })

  it('starts once', () => {
    const run = new Simulation(chain).start()
    expect(run.happen({ type: 'started' })).toMatchObject({ instance: {}, steps: [], events: [] })
  })

  it('changes nothing when a report comes too late, or of a step that was never reached', () => {
    const run = new Simulation(chain).start().complete('a')
    for (const type of ['compensated', 'completed', 'failed', 'compensation_failed', 'given_back'] as const) {
      for (const step of ['a', 'c']) {
        const late = { type, step, output: payload(1), failure: business, kind: 'step', because: 'stopping' } as const
        expect(run.happen(late)).toMatchObject({ steps: [], enqueue: [], remove: [], events: [] })
        if (type === 'given_back') run.happen({ type, step, kind: 'compensation', because: 'stopping' })
      }
    }
    expect(run.waiting()).toEqual(['step b'])
    const missing = { type: 'given_back', step: 'a', kind: 'step', because: 'handler_missing' } as const
    expect(run.happen(missing)).toMatchObject({ steps: [], enqueue: [], events: [] })
  })

  it('takes away an item that is not due to anything any more', () => {
    const run = new Simulation(chain).start().complete('a')
    for (const kind of ['step', 'compensation'] as const) {
      const decision = run.happen({ type: 'claimed', step: 'a', kind })
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
    const once = defineWorkflow('once', 1).step('a', 'A', { nonIdempotent: true }).onFailure('u', 'U').build()
    const crashed = new Simulation(once).start()
    crashed.claim('a')
    expect(crashed.claim('a').call).toBeNull()
    expect(crashed.state.steps.get('a')?.failure?.code).toBe('OUTCOME_UNKNOWN')
    expect(crashed.waiting()).toEqual(['compensation a'])
    const failed = new Simulation(once).start()
    fail(failed, 'a', transient)
    expect(failed.state.status).toBe('ROLLING_BACK')
  })

  it('W-04 a step claimed without a handler is given back for about 5 s, its attempts unchanged', () => {
    for (const [chance, delayMs] of [
      [0, 4000],
      [0.5, 5000],
      [1, 6000],
    ] as const) {
      const run = new Simulation(chain, {}, () => chance).start()
      run.claim('a')
      const { enqueue } = run.happen({ type: 'given_back', step: 'a', kind: 'step', because: 'handler_missing' })
      expect(enqueue).toMatchObject([{ step: 'a', delayMs }])
      expect(run.state.steps.get('a')).toMatchObject({ status: 'PENDING', attempts: 0 })
      expect(run.eventTypes()).toContain('step_skipped_missing_handler a')
    }
  })

  it('W-04 so is a compensation', () => {
    const run = new Simulation(chain).start()
    fail(run, 'a')
    run.claim('a', 'compensation')
    run.happen({ type: 'given_back', step: 'a', kind: 'compensation', because: 'handler_missing' })
    expect(run.state.steps.get('a')).toMatchObject({ status: 'COMPENSATING', compensationAttempts: 0 })
    expect(run.queue.get('compensation a')).toMatchObject({ delayMs: 5000 })
  })

  it('what a stopping worker gives back is due at once, without an event', () => {
    const run = new Simulation(chain).start()
    run.claim('a')
    const { enqueue, events } = run.happen({ type: 'given_back', step: 'a', kind: 'step', because: 'stopping' })
    expect(enqueue).toMatchObject([{ delayMs: 0 }])
    expect(events).toEqual([])
  })
})

const forked = (strategy: 'all' | 'any', dlq = false) =>
  defineWorkflow('forked', 1, { dlq })
    .step('first', 'H')
    .onFailure('undo first', 'U')
    .fork(
      'fork',
      (b) => b.step('l1', 'H').onFailure('undo l1', 'U').step('l2', 'H').onFailure('undo l2', 'U'),
      (b) => b.step('r1', 'H').onFailure('undo r1', 'U'),
    )
    .join('join', strategy)
    .step('last', 'H')
    .onFailure('undo last', 'U')
    .build()

describe('W-07 forks and joins', () => {
  it('all: waits for every branch; its output has each under the name of its first step', () => {
    const run = new Simulation(forked('all'), { n: 1 }).start().complete('first', 'F')
    expect(run.state.steps.get('l1')?.input).toEqual(payload('F'))
    run.complete('l1').complete('r1', 'R')
    expect(run.statuses()).toMatchObject({ fork: 'COMPLETED', join: 'PENDING' })
    run.complete('l2', 'L')
    expect(run.state.steps.get('last')?.input).toEqual(payload({ l1: 'L', r1: 'R' }))
    run.complete('last')
    expect(run.state.status).toBe('COMPLETED')
    expect(run.eventTypes()).toContain('fork_started fork')
    expect(run.eventTypes().filter((event) => event === 'join_completed join')).toHaveLength(1)
  })

  it('keeps the notes of what is more than JSON', () => {
    const run = new Simulation(forked('all')).start().complete('first').complete('l1').complete('l2')
    run.claim('r1')
    run.happen({ type: 'completed', step: 'r1', output: { json: '{"at":"x"}', notes: { '/at': 'date' } } })
    expect(run.state.steps.get('last')?.input.notes).toEqual({ '/r1/at': 'date' })
  })

  it('any: fires once, on the first success; active steps of the others are skipped, completed ones left', () => {
    const run = new Simulation(forked('any')).start().complete('first').complete('l1').complete('r1', 'R')
    expect(run.statuses()).toMatchObject({ join: 'COMPLETED', l1: 'COMPLETED', l2: 'SKIPPED', last: 'PENDING' })
    expect(run.state.steps.get('last')?.input).toEqual(payload({ r1: 'R' }))
    expect(run.waiting()).toEqual(['step last'])
    run.complete('last')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('any: a losing handler gets its AbortSignal; if it completes all the same, that is recorded and goes nowhere', () => {
    const run = new Simulation(forked('any')).start().complete('first')
    run.claim('l1')
    run.complete('r1')
    expect(run.aborted).toEqual(['l1'])
    run.happen({ type: 'completed', step: 'l1', output: payload(1) })
    expect(run.statuses()).toMatchObject({ l1: 'COMPLETED', last: 'PENDING' })
    expect(run.state.steps.has('l2')).toBe(false)
    fail(run, 'last')
    run.compensate('last').compensate('l1').compensate('r1').compensate('first')
    expect(run.state.status).toBe('FAILED')
  })

  it('any: a losing handler that fails changes nothing; one whose worker dies is undone if the instance is', () => {
    const failing = new Simulation(forked('any')).start().complete('first')
    failing.claim('l1')
    failing.complete('r1')
    failing.happen({ type: 'failed', step: 'l1', failure: business })
    expect(failing.statuses()).toMatchObject({ l1: 'SKIPPED', last: 'PENDING' })
    const dying = new Simulation(forked('any')).start().complete('first')
    dying.claim('l1')
    dying.complete('r1')
    dying.claim('l1')
    expect(dying.statuses()).toMatchObject({ l1: 'FAILED', last: 'PENDING' })
    fail(dying, 'last')
    dying.compensate('last').compensate('l1').compensate('r1').compensate('first')
    expect(dying.state.status).toBe('FAILED')
  })

  it('any: a late loser of an instance that has completed is recorded', () => {
    const run = new Simulation(forked('any')).start().complete('first')
    run.claim('l1')
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    run.happen({ type: 'completed', step: 'l1', output: payload(1) })
    expect(run.statuses()).toMatchObject({ l1: 'COMPLETED' })
    expect(run.queue.size).toBe(0)
  })

  it('any: a failed branch does not fail the others; the join waits for one that succeeds', () => {
    const run = new Simulation(forked('any')).start().complete('first')
    fail(run, 'r1')
    expect(run.state.status).toBe('RUNNING')
    run.complete('l1').complete('l2').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    expect(run.statuses()).toMatchObject({ r1: 'FAILED' })
  })

  it('any: all branches failed = the join fails', () => {
    const run = new Simulation(forked('any')).start().complete('first').complete('l1')
    fail(run, 'r1')
    fail(run, 'l2')
    expect(run.state).toMatchObject({ status: 'ROLLING_BACK', failure: { step: 'l2' } })
    expect(run.eventTypes()).toContain('step_failed join')
    run.compensate('l2').compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ join: 'ROLLED_BACK', fork: 'ROLLED_BACK', r1: 'ROLLED_BACK' })
  })

  it('any: what is under way in a branch that has failed is skipped', () => {
    const nested = defineWorkflow('nested', 1)
      .fork(
        'outer',
        (b) =>
          b
            .fork(
              'inner',
              (c) => c.step('a', 'H'),
              (c) => c.step('b', 'H'),
              (c) => c.step('c', 'H'),
            )
            .join('ij', 'all'),
        (b) => b.step('d', 'H'),
      )
      .join('oj', 'any')
      .build()
    const run = new Simulation(nested).start()
    run.claim('b')
    fail(run, 'a')
    expect(run.statuses()).toMatchObject({
      a: 'FAILED',
      b: 'SKIPPED',
      c: 'SKIPPED',
      ij: 'SKIPPED',
      oj: 'PENDING',
      d: 'PENDING',
    })
    expect(run.aborted).toEqual(['b'])
    run.complete('d')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('a parallel goes on when all its branches have ended, and a fork without a join too', () => {
    const both = defineWorkflow('both', 1)
      .parallel(
        'p',
        (b) => b.step('a', 'H'),
        (b) => b.step('b', 'H'),
      )
      .fork(
        'f',
        (b) => b.step('c', 'H'),
        (b) => b.step('d', 'H'),
      )
      .build()
    const run = new Simulation(both).start().complete('a', 1)
    expect(run.statuses()).toMatchObject({ p: 'RUNNING' })
    run.complete('b', 2)
    expect(run.state.steps.get('p')?.output).toEqual(payload({ a: 1, b: 2 }))
    run.complete('d', 4).complete('c', 3)
    expect(run.state).toMatchObject({ status: 'COMPLETED', output: payload({ c: 3, d: 4 }) })
  })

  it('forks in forks in forks', () => {
    const deep = defineWorkflow('deep', 1)
      .fork(
        'f1',
        (b) =>
          b
            .fork(
              'f2',
              (c) =>
                c
                  .fork(
                    'f3',
                    (d) => d.step('a', 'H'),
                    (d) => d.step('b', 'H'),
                  )
                  .join('j3', 'any')
                  .step('c', 'H'),
              (c) => c.step('d', 'H'),
            )
            .join('j2', 'all'),
        (b) => b.step('e', 'H'),
      )
      .join('j1', 'all')
      .build()
    const run = new Simulation(deep).start()
    for (const step of ['e', 'b', 'd', 'c']) run.complete(step, step)
    expect(run.state).toMatchObject({
      status: 'COMPLETED',
      output: payload({ f2: { f3: 'c', d: 'd' }, e: 'e' }),
    })
    expect(run.statuses()).toMatchObject({ a: 'SKIPPED' })
  })
})

const conditional = (otherwise: boolean) => {
  const start = defineWorkflow('conditional', 1)
  const condition = otherwise
    ? start.condition('big', '{{ gt .n 100 }}', (b) => b.step('small', 'H'))
    : start.condition('big', '{{ gt .n 100 }}')
  return condition.step('large', 'H').build()
}

describe('W-07 branches that end while the fork is being begun', () => {
  const quick = (strategy: 'all' | 'any') =>
    defineWorkflow('quick', 1)
      .fork(
        'f',
        (b) => b.condition('c', '{{ .go }}').step('a', 'H'),
        (b) => b.step('b', 'H'),
      )
      .join('j', strategy)
      .step('last', 'H')
      .build()

  it('any: the first wins before the others have begun', () => {
    const run = new Simulation(quick('any')).start()
    expect(run.waiting()).toEqual(['step last'])
    expect(run.state.steps.has('b')).toBe(false)
  })

  it('all: the others begin', () => {
    const run = new Simulation(quick('all')).start()
    expect(run.waiting()).toEqual(['step b'])
  })

  it('any: one that fails at once stops what its branch has not begun yet, and nothing else', () => {
    const workflow = defineWorkflow('w', 1)
      .fork(
        'f',
        (b) =>
          b
            .fork(
              'g',
              (c) => c.condition('c', '{{ gt .n 1 }}'),
              (c) => c.step('a', 'H'),
            )
            .join('k', 'all'),
        (b) => b.step('b', 'H'),
      )
      .join('j', 'any')
      .build()
    const run = new Simulation(workflow, 'no object').start()
    expect(run.waiting()).toEqual(['step b'])
    expect(run.statuses()).toEqual({
      f: 'COMPLETED',
      j: 'PENDING',
      g: 'COMPLETED',
      k: 'SKIPPED',
      c: 'FAILED',
      b: 'PENDING',
    })
  })
})

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
    const branched = defineWorkflow('branched', 1)
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

  it('W-06 that cannot be answered fails, and what came before is undone', () => {
    const workflow = defineWorkflow('w', 1)
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
    run.compensate('r1')
    expect(run.waiting()).toEqual([])
    run.happen({ type: 'completed', step: 'l2', output: payload(1) })
    run.compensate('l2').compensate('l1').compensate('first')
    expect(run.state.status).toBe('FAILED')
    expect(run.aborted).toEqual([])
  })

  it('a sibling that fails after the failure is not tried again; its own compensation has its turn', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.happen({ type: 'failed', step: 'l1', failure: transient })
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
    back.happen({ type: 'given_back', step: 'l1', kind: 'step', because: 'stopping' })
    back.compensate('r1').compensate('first')
    expect(back.state.status).toBe('FAILED')
    expect(back.statuses()).toMatchObject({ l1: 'SKIPPED' })
  })

  it('stops at the nearest save point', () => {
    const saved = defineWorkflow('saved', 1)
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
    const saved = defineWorkflow('saved', 1)
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
    run.happen({ type: 'completed', step: 'slow', output: payload(1) })
    fail(run, 'c')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ slow: 'COMPLETED', fast: 'COMPLETED', c: 'ROLLED_BACK' })
  })

  it('undoes only the side of a condition that was taken', () => {
    const workflow = defineWorkflow('w', 1)
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
    run.happen({ type: 'requeued', step: 'c', input: payload('fixed'), by })
    expect(run.waiting()).toEqual(['compensation c'])
    expect(run.state.steps.get('c')).toMatchObject({ input: payload('fixed'), compensationAttempts: 0 })
    run.compensate('c')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ c: 'ROLLED_BACK' })
    expect(() => run.happen({ type: 'requeued', step: 'c', by })).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS' }),
    )
  })

  it('requeued while the others are being undone, it waits for its turn; failing again makes the record anew', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    failUndo(run, 'c')
    failUndo(run, 'c')
    run.claim('a', 'compensation')
    run.happen({ type: 'requeued', step: 'c', by })
    expect(run.waiting()).toEqual([])
    run.happen({ type: 'compensated', step: 'a' })
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
    const once = defineWorkflow('once', 1).step('a', 'A').onFailure('u', 'U', { nonIdempotent: true }).build()
    const other = new Simulation(once).start()
    fail(other, 'a')
    other.claim('a', 'compensation')
    expect(other.claim('a', 'compensation').call).toBeNull()
    expect(other.deadLetters.get('a')?.failure.code).toBe('OUTCOME_UNKNOWN')
  })
})

describe('W-09 the DLQ', () => {
  it('pauses the step, freezes what is queued, lets what runs finish, and undoes nothing', () => {
    const three = defineWorkflow('three', 1, { dlq: true })
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
    run.happen({ type: 'completed', step: 'b', output: payload('B') })
    expect(run.statuses()).toMatchObject({ b: 'COMPLETED', b2: 'PAUSED' })
    run.happen({ type: 'requeued', step: 'a', input: payload({ n: 2 }), by })
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

  it('a join that is ready while the instance is frozen fires when it is thawed', () => {
    const inner = defineWorkflow('inner', 1, { dlq: true })
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
    for (const step of ['c', 'd', 'x', 'y']) run.happen({ type: 'completed', step, output: payload(step) })
    expect(run.statuses()).toMatchObject({ k: 'PAUSED', p: 'RUNNING' })
    run.happen({ type: 'requeued', step: 'a', by })
    expect(run.statuses()).toMatchObject({ k: 'COMPLETED', p: 'COMPLETED', e: 'PENDING' })
    run.complete('e').complete('a')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('several failed branches are requeued independently, and an instance that only waits for one says so', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.happen({ type: 'failed', step: 'l1', failure: business })
    expect([...run.deadLetters.keys()]).toEqual(['r1', 'l1'])
    run.happen({ type: 'requeued', step: 'l1', by })
    expect(run.state.status).toBe('RUNNING')
    expect(run.statuses()).toMatchObject({ r1: 'PAUSED' })
    run.complete('l1').complete('l2')
    expect(run.state).toMatchObject({ status: 'DLQ', failure: { step: 'r1' } })
    run.happen({ type: 'requeued', step: 'r1', by })
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('a running sibling that fails with attempts left waits for the thaw, its attempts kept; a lost one too', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.happen({ type: 'failed', step: 'l1', failure: transient })
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', dlq: false, attempts: 1 })
    run.happen({ type: 'requeued', step: 'r1', by })
    run.claim('l1')
    expect(run.state.steps.get('l1')?.attempts).toBe(2)
    fail(run, 'r1')
    run.claim('l1')
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', dlq: false, failure: { code: 'CALL_LOST' } })
  })

  it('a step that is given back while frozen waits for the thaw', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    run.claim('l1')
    fail(run, 'r1')
    run.happen({ type: 'given_back', step: 'l1', kind: 'step', because: 'stopping' })
    expect(run.state.steps.get('l1')).toMatchObject({ status: 'PAUSED', attempts: 0 })
    run.happen({ type: 'requeued', step: 'r1', by })
    expect(run.waiting()).toEqual(['step r1', 'step l1'])
  })

  it('a condition that cannot be answered is evaluated anew, with the new input', () => {
    const workflow = defineWorkflow('w', 1, { dlq: true }).condition('c', '{{ gt .n 1 }}').step('a', 'H').build()
    const run = new Simulation(workflow, 5).start()
    expect(run.state.status).toBe('DLQ')
    run.happen({ type: 'requeued', step: 'c', input: payload('still wrong'), by })
    expect(run.state.status).toBe('DLQ')
    expect(run.deadLetters.get('c')?.input).toEqual(payload('still wrong'))
    run.happen({ type: 'requeued', step: 'c', input: payload({ n: 2 }), by })
    expect(run.waiting()).toEqual(['step a'])
  })

  it('any: a failed branch waits in the DLQ while the others go on, and is past help when one of them wins', () => {
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
    run.happen({ type: 'requeued', step: 'r1', by })
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    expect(run.statuses()).toMatchObject({ l1: 'FAILED' })
  })

  it.each(['a', 'c'])('refuses to requeue `%s`, which has no record', (step) => {
    const run = new Simulation(chain).start()
    expect(() => run.happen({ type: 'requeued', step, by })).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS' }),
    )
  })

  it('refuses to requeue a step that does not exist, naming the nearest', () => {
    const run = new Simulation(forked('all')).start()
    expect(() => run.happen({ type: 'requeued', step: 'frist', by })).toThrow(
      expect.objectContaining({ code: 'HF_UNKNOWN_STEP', message: expect.stringContaining('did you mean `first`?') }),
    )
  })
})

const human = defineWorkflow('human', 1)
  .step('a', 'H')
  .onFailure('ua', 'U')
  .fork(
    'f',
    (b) => b.waitHumanConfirm('ok').onFailure('uo', 'U').step('b', 'H'),
    (b) => b.step('c', 'H'),
  )
  .join('j', 'all')
  .build()

describe('W-10 human steps', () => {
  it('wait for a decision; confirmed, their own input goes on at once', () => {
    const run = new Simulation(human).start().complete('a', { n: 1 })
    expect(run.statuses()).toMatchObject({ ok: 'WAITING_DECISION' })
    const { humanDecisions, enqueue } = run.happen({ type: 'decided', step: 'ok', decision: 'confirm', by })
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
    run.happen({ type: 'decided', step: 'ok', decision: 'reject', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.statuses()).toMatchObject({ a: 'COMPLETED', ok: 'REJECTED', c: 'SKIPPED', j: 'SKIPPED' })
    expect(run.aborted).toEqual(['c'])
  })

  it('a second decision is refused, and one on a step that does not wait', () => {
    const run = new Simulation(human).start()
    const decided = (step: string) => () => run.happen({ type: 'decided', step, decision: 'confirm', by })
    expect(decided('ok')).toThrow(/cannot be decided: it is not reached yet/)
    run.complete('a')
    decided('ok')()
    expect(decided('ok')).toThrow(
      expect.objectContaining({ code: 'HF_WRONG_STATUS', message: expect.stringContaining('CONFIRMED') }),
    )
    expect(decided('c')).toThrow(expect.objectContaining({ code: 'HF_WRONG_STATUS' }))
    expect(decided('okay')).toThrow(expect.objectContaining({ code: 'HF_UNKNOWN_STEP' }))
  })

  it('can be decided while the instance is in the DLQ; it goes on after the thaw', () => {
    const workflow = defineWorkflow('w', 1, { dlq: true })
      .fork(
        'f',
        (b) => b.waitHumanConfirm('ok').step('b', 'H'),
        (b) => b.step('c', 'H'),
      )
      .join('j', 'all')
      .build()
    const run = new Simulation(workflow).start()
    fail(run, 'c')
    run.happen({ type: 'decided', step: 'ok', decision: 'confirm', by })
    expect(run.statuses()).toMatchObject({ ok: 'CONFIRMED', b: 'PAUSED' })
    run.happen({ type: 'requeued', step: 'c', by })
    run.complete('c').complete('b')
    expect(run.state.status).toBe('COMPLETED')
  })
})

describe('W-11 cancel', () => {
  it('skips what is under way and waits, undoes what was done, and ends CANCELLED', () => {
    const run = new Simulation(human).start().complete('a')
    run.happen({ type: 'decided', step: 'ok', decision: 'confirm', by })
    run.claim('c')
    run.happen({ type: 'cancel', by })
    expect(run.state.status).toBe('CANCELLING')
    expect(run.statuses()).toMatchObject({ c: 'SKIPPED', b: 'SKIPPED', j: 'SKIPPED' })
    expect(run.aborted).toEqual(['c'])
    expect(run.waiting()).toEqual([])
    run.happen({ type: 'failed', step: 'c', failure: transient })
    run.compensate('ok').compensate('a')
    expect(run.state.status).toBe('CANCELLED')
    expect(run.statuses()).toMatchObject({ c: 'SKIPPED', ok: 'ROLLED_BACK', a: 'ROLLED_BACK' })
    expect(run.events.at(-1)).toMatchObject({ type: 'workflow_cancelled' })
    expect(run.events.find(({ type }) => type === 'cancellation_started')).toMatchObject(by)
  })

  it('a step that completes anyway is recorded and undone, before those that completed earlier', () => {
    const run = new Simulation(forked('all')).start().complete('first').complete('l1')
    run.claim('r1')
    run.happen({ type: 'cancel', by })
    run.happen({ type: 'completed', step: 'r1', output: payload(1) })
    run.compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('a step whose worker dies is undone: nobody knows what it did', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('r1')
    run.happen({ type: 'cancel', by })
    expect(run.claim('r1').call).toBeNull()
    run.compensate('r1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('is prompt from a human step, from before the start, and when nothing was done', () => {
    const waiting = new Simulation(defineWorkflow('w', 1).waitHumanConfirm('ok').build()).start()
    waiting.happen({ type: 'cancel', by })
    expect(waiting.state.status).toBe('CANCELLED')
    expect(() => waiting.happen({ type: 'decided', step: 'ok', decision: 'confirm', by })).toThrow('it is SKIPPED')
    const pending = new Simulation(chain)
    pending.happen({ type: 'cancel', by })
    expect(pending.state.status).toBe('CANCELLED')
  })

  it('from the DLQ undoes what was done, the failed step first, and takes its record away', () => {
    const run = new Simulation(forked('all', true)).start().complete('first').complete('l1')
    fail(run, 'r1')
    run.happen({ type: 'cancel', by })
    expect(run.deadLetters.size).toBe(0)
    expect(run.statuses()).toMatchObject({ l2: 'SKIPPED' })
    run.compensate('r1').compensate('l1').compensate('first')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('ends FAILED, with a record, if a compensation failed for good', () => {
    const run = new Simulation(chain).start().complete('a')
    run.happen({ type: 'cancel', by })
    for (let attempt = 1; attempt <= 3; attempt += 1) failUndo(run, 'a')
    expect(run.state).toMatchObject({ status: 'FAILED', failure: { step: 'a' } })
    expect(run.deadLetters.has('a')).toBe(true)
  })

  it('while it rolls back, ends CANCELLED', () => {
    const run = new Simulation(chain).start().complete('a')
    fail(run, 'b')
    run.happen({ type: 'cancel', by })
    run.compensate('a')
    expect(run.state.status).toBe('CANCELLED')
  })

  it('twice is once; refused when the instance has ended otherwise', () => {
    const run = new Simulation(chain).start().complete('a')
    run.happen({ type: 'cancel', by })
    expect(run.happen({ type: 'cancel', by })).toMatchObject({ events: [], steps: [] })
    run.compensate('a')
    expect(run.happen({ type: 'cancel', by })).toMatchObject({ events: [], steps: [] })
    expect(() => run.happen({ type: 'abort', by })).toThrow('cannot be aborted: it is CANCELLED')
    const done = new Simulation(chain).start().complete('a').complete('b').complete('c')
    expect(() => done.happen({ type: 'cancel', by })).toThrow('cannot be cancelled: it is COMPLETED')
  })
})

describe('W-11 abort', () => {
  it('stops at once and undoes nothing; a handler that completes anyway is recorded', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    run.happen({ type: 'abort', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.aborted).toEqual(['l1'])
    expect(run.statuses()).toMatchObject({ first: 'COMPLETED', l1: 'SKIPPED', r1: 'SKIPPED', join: 'SKIPPED' })
    run.happen({ type: 'completed', step: 'l1', output: payload(1) })
    expect(run.statuses()).toMatchObject({ l1: 'COMPLETED' })
    expect(run.queue.size).toBe(0)
    expect(run.happen({ type: 'abort', by }).events).toEqual([])
    expect(() => run.happen({ type: 'cancel', by })).toThrow('cannot be cancelled: it is ABORTED')
  })

  it('the item of a worker that died is taken away', () => {
    const run = new Simulation(forked('all')).start().complete('first')
    run.claim('l1')
    run.happen({ type: 'abort', by })
    expect(run.claim('l1').call).toBeNull()
    expect(run.queue.size).toBe(0)
  })

  it('from the DLQ takes the record away', () => {
    const run = new Simulation(forked('all', true)).start().complete('first')
    fail(run, 'r1')
    run.happen({ type: 'abort', by })
    expect(run.state.status).toBe('ABORTED')
    expect(run.deadLetters.size).toBe(0)
  })

  it.each(['queued', 'completes', 'fails', 'dies', 'is given back'])(
    'stops a rollback: a compensation that %s leaves the step as it was, or undone',
    (fate) => {
      const run = new Simulation(chain).start().complete('a')
      fail(run, 'b')
      if (fate !== 'queued') run.claim('a', 'compensation')
      run.happen({ type: 'abort', by })
      expect(run.state.status).toBe('ABORTED')
      if (fate === 'completes') run.happen({ type: 'compensated', step: 'a' })
      if (fate === 'fails') run.happen({ type: 'compensation_failed', step: 'a', failure: business })
      if (fate === 'dies') run.claim('a', 'compensation')
      if (fate === 'is given back')
        run.happen({ type: 'given_back', step: 'a', kind: 'compensation', because: 'stopping' })
      expect(run.statuses()).toMatchObject({ a: fate === 'completes' ? 'ROLLED_BACK' : 'COMPLETED' })
      expect(run.queue.size).toBe(0)
    },
  )

  it('leaves a confirmed and a failed step as they were', () => {
    const run = new Simulation(human).start().complete('a')
    run.happen({ type: 'decided', step: 'ok', decision: 'confirm', by })
    fail(run, 'c')
    expect(run.statuses()).toMatchObject({ ok: 'COMPENSATING' })
    run.happen({ type: 'abort', by })
    expect(run.statuses()).toMatchObject({ ok: 'CONFIRMED' })
    const other = new Simulation(chain).start()
    fail(other, 'a')
    other.happen({ type: 'abort', by })
    expect(other.statuses()).toMatchObject({ a: 'FAILED' })
  })

  it('keeps the record of a compensation that failed before, and reruns that one only', () => {
    const run = new Simulation(chain).start().complete('a').complete('b')
    fail(run, 'c')
    failUndo(run, 'c')
    failUndo(run, 'c')
    run.happen({ type: 'abort', by })
    run.happen({ type: 'requeued', step: 'c', by })
    run.compensate('c')
    expect(run.statuses()).toMatchObject({ a: 'COMPLETED', b: 'ROLLED_BACK', c: 'ROLLED_BACK' })
    expect(run.state.status).toBe('ABORTED')
  })
})
