import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { business, fail, forked } from '../simulation/samples.js'
import { by, payload, Simulation } from '../simulation/simulation.js'

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
    run.apply({ type: 'completed', step: 'r1', output: { json: '{"at":"x"}', notes: { '/at': 'date' } } })
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
    run.apply({ type: 'completed', step: 'l1', output: payload(1) })
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
    failing.apply({ type: 'failed', step: 'l1', failure: business })
    expect(failing.statuses()).toMatchObject({ l1: 'SKIPPED', last: 'PENDING' })
    const dying = new Simulation(forked('any')).start().complete('first')
    dying.claim('l1')
    dying.complete('r1')
    dying.claim('l1')
    expect(dying.statuses()).toMatchObject({ l1: 'SKIPPED', last: 'PENDING' })
    fail(dying, 'last')
    dying.compensate('last').compensate('l1').compensate('r1').compensate('first')
    expect(dying.state.status).toBe('FAILED')
  })

  it('any: a late loser of an instance that has completed is recorded', () => {
    const run = new Simulation(forked('any')).start().complete('first')
    run.claim('l1')
    run.complete('r1').complete('last')
    expect(run.state.status).toBe('COMPLETED')
    run.apply({ type: 'completed', step: 'l1', output: payload(1) })
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
    // K-19: the other branch was refused, so it has nothing to undo.
    run.compensate('l2').compensate('l1').compensate('first')
    expect(run.state.status).toBe('FAILED')
    expect(run.statuses()).toMatchObject({ join: 'ROLLED_BACK', fork: 'ROLLED_BACK', r1: 'FAILED' })
  })

  it('any: what is under way in a branch that has failed is skipped', () => {
    const nested = defineWorkflow('test', 'nested')
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
    const both = defineWorkflow('test', 'both')
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
    const deep = defineWorkflow('test', 'deep')
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

describe('W-07 branches that end while the fork is being begun', () => {
  const quick = (strategy: 'all' | 'any') =>
    defineWorkflow('test', 'quick')
      .fork(
        'f',
        (b) => b.condition('c', '{{ .go }}').step('a', 'H'),
        (b) => b.step('b', 'H'),
      )
      .join('j', strategy)
      .step('last', 'H')
      .build()

  it('any: a branch that ends at once because its condition is false does not win against one that works', () => {
    const run = new Simulation(quick('any')).start()
    expect(run.waiting()).toEqual(['step b'])
    run.complete('b')
    expect(run.waiting()).toEqual(['step last'])
    expect(JSON.parse(run.state.steps.get('last')?.input.json ?? '')).toEqual({ b: { of: 'b' } })
  })

  it('any: a branch that did nothing wins when every other branch has failed', () => {
    const run = new Simulation(quick('any')).start()
    fail(run, 'b')
    expect(run.waiting()).toEqual(['step last'])
    run.complete('last')
    expect(run.state.status).toBe('COMPLETED')
  })

  it('any: branches that did nothing only: the first of the definition wins', () => {
    const workflow = defineWorkflow('test', 'w')
      .fork(
        'f',
        (b) => b.condition('c', '{{ .no }}').step('a', 'H'),
        (b) =>
          b.parallel(
            'p',
            (d) => d.condition('d', '{{ .no }}').step('b', 'H'),
            (d) => d.condition('e', '{{ .no }}').step('g', 'H'),
          ),
      )
      .join('j', 'any')
      .build()
    const run = new Simulation(workflow).start()
    expect(run.state.status).toBe('COMPLETED')
    expect(Object.keys(JSON.parse(run.state.output?.json ?? ''))).toEqual(['c'])
  })

  it('any: a branch that has done something before its condition was false is a success, and so is an else branch', () => {
    const workflow = defineWorkflow('test', 'w')
      .fork(
        'f',
        (b) => b.step('a', 'H').condition('c', '{{ .no }}').step('never', 'H'),
        (b) => b.condition('d', '{{ .no }}', (e) => e.step('else', 'H')).step('not', 'H'),
      )
      .join('j', 'any')
      .build()
    const first = new Simulation(workflow).start().complete('a')
    expect(first.state.status).toBe('COMPLETED')
    const second = new Simulation(workflow).start().complete('else')
    expect(Object.keys(JSON.parse(second.state.output?.json ?? ''))).toEqual(['d'])
  })

  it('any in DLQ mode: a dead letter of the other branch may still succeed, so one that did nothing waits for it', () => {
    const workflow = defineWorkflow('test', 'w', { dlq: true })
      .fork(
        'f',
        (b) => b.condition('c', '{{ .no }}').step('a', 'H'),
        (b) => b.step('b', 'H'),
      )
      .join('j', 'any')
      .build()
    const run = new Simulation(workflow).start()
    fail(run, 'b')
    expect(run.state.status).toBe('DLQ')
    run.apply({ type: 'requeued', step: 'b', by })
    run.complete('b')
    expect(run.state.status).toBe('COMPLETED')
    expect(Object.keys(JSON.parse(run.state.output?.json ?? ''))).toEqual(['b'])
  })

  it('all: the others begin', () => {
    const run = new Simulation(quick('all')).start()
    expect(run.waiting()).toEqual(['step b'])
  })

  it('any: one that fails at once stops what its branch has not begun yet, and nothing else', () => {
    const workflow = defineWorkflow('test', 'w')
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
