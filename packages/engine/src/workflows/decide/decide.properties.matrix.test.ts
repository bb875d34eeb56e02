import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compensationOf, successorsOf, type WorkflowDefinition } from '../definition/definition.js'
import { type GraphOptions, MAX_ATTEMPTS, succeeds, type Tree, toWorkflow, trees } from '../simulation/graphs.js'
import { type Fate, Runner } from '../simulation/runner.js'
import { by, payload } from '../simulation/simulation.js'

/** In which order things happen: from a seed, so that a failing run can be repeated. */
function pickerOf(seed: number): (count: number) => number {
  let state = seed | 0
  return (count) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    return count === 0 ? 0 : ((state >>> 8) ^ (state >>> 20)) % count
  }
}

function run(tree: Tree, seed: number, fate: Partial<Fate> = {}, dlq = false): Runner {
  const { definition, fails } = toWorkflow(tree, dlq)
  return new Runner(definition, { fails, pick: pickerOf(seed), ...fate }).run()
}

/** `PROPERTY_RUNS=5000` looks longer. */
const numRuns = Number(process.env.PROPERTY_RUNS ?? (process.env.HOLDFAST_TEST_LONG === '1' ? 500 : 40))
const seeds = fc.integer()
const check = (options: GraphOptions, property: (tree: Tree, seed: number) => void) =>
  fc.assert(fc.property(trees(options), seeds, property), { numRuns })

/** Everything behind the last save point that was reached; everything if there was none. */
function scopeOf({ simulation, ended }: Runner): (name: string) => boolean {
  const typeOf = new Map(simulation.definition.steps.map(({ name, type }) => [name, type]))
  const last = ended.findLast((name) => typeOf.get(name) === 'save_point')
  if (last === undefined) return () => true
  const behind = reachableFrom(simulation.definition, last)
  return (name) => behind.has(name)
}

function reachableFrom(definition: WorkflowDefinition, start: string): ReadonlySet<string> {
  const leads = new Map(definition.steps.map((step) => [step.name, successorsOf(step)]))
  const found = new Set<string>()
  const visit = (name: string): void => {
    for (const next of leads.get(name) ?? []) {
      found.add(next)
      visit(next)
    }
  }
  visit(start)
  return found
}

/** The steps whose end must be undone: they have a compensation, and may have had an effect or made the instance fail. */
function undoableOf(runner: Runner): (name: string) => boolean {
  const { definition, state } = runner.simulation
  const compensated = new Set(definition.steps.filter(compensationOf).map(({ name }) => name))
  return (name) => compensated.has(name) && (runner.mayHaveDone(name) || name === state.failure?.step)
}

const survives = (node: { fails: unknown; once: boolean }) =>
  node.fails === 'never' || (typeof node.fails === 'number' && !node.once)

describe('generated graphs, failures and interleavings', () => {
  it('W-07 W-08 every instance ends as its graph and failures predict, whichever worker runs which step in whatever order', () => {
    check({}, (tree, seed) => {
      const { state } = run(tree, seed).simulation
      expect(state.status).toBe(succeeds(tree, survives) ? 'COMPLETED' : 'FAILED')
    })
  })

  it('W-08 the same graph and the same failures give the same end, whatever the order and the kills', () => {
    // One kill at most costs one call; a step that fails twice has no call to spare.
    const spare = (tree: Tree): Tree => JSON.parse(JSON.stringify(tree).replaceAll('"fails":2', '"fails":1'))
    check({ once: false }, (tree, seed) => {
      const ends = [seed, seed + 1, seed + 2].map(
        (each, kills) => run(spare(tree), each, { kills: Math.min(kills, 1) }).simulation.state.status,
      )
      expect(new Set(ends).size).toBe(1)
    })
  })

  it('W-01 every instance ends under any number of kills', () => {
    check({}, (tree, seed) => {
      const { state } = run(tree, seed, { kills: 50 }).simulation
      expect(['COMPLETED', 'FAILED']).toContain(state.status)
    })
  })

  it('W-07 no step runs before the step that leads to it is done', () => {
    check({}, (tree, seed) => {
      const { definition, fails } = toWorkflow(tree)
      const runner = new Runner(definition, { fails, pick: pickerOf(seed), kills: 3 })
      const { simulation } = runner
      const ledBy = new Map(definition.steps.flatMap((step) => successorsOf(step).map((next) => [next, step] as const)))
      const apply = simulation.apply.bind(simulation)
      simulation.apply = (event) => {
        const decision = apply(event)
        const from = decision.call?.kind === 'step' ? ledBy.get(decision.call.step) : undefined
        const status = from === undefined ? 'COMPLETED' : simulation.state.steps.get(from.name)?.status
        // A fork without a join is done when its branches are.
        const begun = from?.type === 'parallel' ? ['RUNNING', 'COMPLETED'] : ['COMPLETED', 'CONFIRMED']
        expect(begun).toContain(status)
        return decision
      }
      runner.run()
    })
  })

  it('W-07 a join fires once at most, with what its strategy waits for', () => {
    check({}, (tree, seed) => {
      const { simulation } = run(tree, seed, { kills: 3 })
      for (const { name, type } of simulation.definition.steps) {
        const fired = simulation.events.filter((event) => event.type === 'join_completed' && event.step === name)
        expect(fired.length).toBeLessThanOrEqual(1)
        if (type === 'join' && fired.length === 1) {
          const output = simulation.state.steps.get(name)?.output?.json ?? '{}'
          const fork = simulation.definition.steps.find((step) => step.next === name && step.type === 'fork')
          const branches = fork?.type === 'fork' ? fork.branches : []
          const strategy = simulation.definition.steps.find((step) => step.name === name)
          const wanted = strategy?.type === 'join' && strategy.strategy === 'any' ? 1 : branches.length
          expect(Object.keys(JSON.parse(output))).toHaveLength(wanted)
        }
      }
    })
  })

  it('W-01 a handler is called no more often than it may be, a non-idempotent one once', () => {
    check({}, (tree, seed) => {
      const { simulation } = run(tree, seed, { kills: 5 })
      for (const step of simulation.definition.steps) {
        const calls = simulation.calls.filter((call) => call.step === step.name)
        const once = step.type === 'task' && step.nonIdempotent
        expect(calls.filter(({ kind }) => kind === 'step').length).toBeLessThanOrEqual(once ? 1 : MAX_ATTEMPTS)
        expect(calls.filter(({ kind }) => kind === 'compensation').length).toBeLessThanOrEqual(MAX_ATTEMPTS)
      }
    })
  })

  it('W-08 rollback: the failing step first, then strictly the last to end, each once, nothing before the nearest save point', () => {
    check({}, (tree, seed) => {
      const runner = run(tree, seed, { kills: 2 })
      const { state } = runner.simulation
      if (state.status !== 'FAILED') expect(runner.undone).toEqual([])
      if (state.status !== 'FAILED') return
      const inScope = scopeOf(runner)
      const failing = state.failure?.step ?? ''
      const undoable = undoableOf(runner)
      const backwards = runner.ended.filter((name) => inScope(name) && name !== failing).toReversed()
      expect(runner.undone.filter(undoable)).toEqual([failing, ...backwards].filter(undoable))
      for (const step of state.steps.values()) {
        if (!inScope(step.name)) expect(['COMPLETED', 'CONFIRMED', 'FAILED', 'SKIPPED']).toContain(step.status)
        if (step.order === null || !inScope(step.name)) continue
        expect(['ROLLED_BACK', 'FAILED', ...(step.outcome === 'refused' ? ['SKIPPED'] : [])]).toContain(step.status)
      }
    })
  })

  it.each(['failure', 'cancel'] as const)(
    'K-19 after a %s every call that may have had its effect is undone exactly once, and nothing else',
    (why) => {
      fc.assert(
        fc.property(trees(), seeds, fc.integer({ min: 1, max: 30 }), fc.boolean(), (tree, seed, turn, dlq) => {
          const at = why === 'cancel' ? { at: { turn, what: 'cancel' as const } } : {}
          const runner = run(tree, seed, { kills: 3, stops: 3, ...at }, dlq)
          const { state, events, definition, deadLetters } = runner.simulation
          if (state.status !== 'FAILED' && state.status !== 'CANCELLED') return
          const inScope = scopeOf(runner)
          for (const step of definition.steps) {
            if (compensationOf(step) === undefined) continue
            const { name } = step
            const undone = events.filter(({ type, step: of }) => type === 'compensation_success' && of === name).length
            const failing = name === state.failure?.step
            const due = runner.mayHaveDone(name) || (failing && runner.outcomes.has(name))
            // A compensation whose calls were all lost waits for a person: it is not forgotten.
            const waits = deadLetters.has(name) ? 1 : 0
            expect([name, undone + waits]).toEqual([name, due && inScope(name) ? 1 : 0])
          }
        }),
        { numRuns },
      )
    },
  )

  it('K-19 an instance that completes has undone nothing, and every step of its path has its effect', () => {
    check({}, (tree, seed) => {
      const runner = run(tree, seed, { kills: 3, stops: 3 })
      const { state, calls } = runner.simulation
      if (state.status !== 'COMPLETED') return
      expect(calls.filter(({ kind }) => kind === 'compensation')).toEqual([])
      for (const { name, status } of state.steps.values()) {
        if (status === 'COMPLETED' && runner.outcomes.has(name))
          expect(runner.outcomes.get(name)).toContain('completed')
      }
    })
  })

  it('K-26 orderly stops during calls use no attempts: the end is as if there had been none', () => {
    check({ once: false }, (tree, seed) => {
      const ends = [0, 30].map((stops) => run(tree, seed, { stops }).simulation.state.status)
      expect(new Set(ends).size).toBe(1)
    })
  })

  it('W-08 a compensation succeeds once at most, and is called only of steps that completed or failed', () => {
    check({}, (tree, seed) => {
      const { simulation, ended } = run(tree, seed, { kills: 3 })
      for (const { step, kind } of simulation.calls) if (kind === 'compensation') expect(ended).toContain(step)
      const undone = simulation.events.filter(({ type }) => type === 'compensation_success').map(({ step }) => step)
      expect(new Set(undone).size).toBe(undone.length)
    })
  })

  it('W-08 compensations that fail for good leave a dead letter each; the others run, and a requeue reruns just that one', () => {
    check({}, (tree, seed) => {
      const { definition } = toWorkflow(tree)
      const undoFails = new Set(
        definition.steps.filter((step, index) => compensationOf(step) && index % 2 === 0).map(({ name }) => name),
      )
      const failing = new Set(undoFails)
      const runner = run(tree, seed, { undoFails: failing })
      const { simulation, undone } = runner
      if (simulation.state.status !== 'FAILED') return
      const stuck = undone.filter((name) => undoFails.has(name))
      expect(new Set(simulation.deadLetters.keys())).toEqual(new Set(stuck))
      failing.clear()
      const statuses = simulation.statuses()
      for (const name of stuck) {
        simulation.apply({ type: 'requeued', step: name, by })
        runner.run()
        statuses[name] = 'ROLLED_BACK'
        expect(simulation.statuses()).toEqual(statuses)
      }
      expect(simulation.state.status).toBe('FAILED')
      expect(simulation.deadLetters.size).toBe(0)
    })
  })

  it('W-11 cancelled at any moment, everything that was done and can be undone is undone; nothing keeps running', () => {
    fc.assert(
      fc.property(trees(), seeds, fc.integer({ min: 1, max: 30 }), fc.boolean(), (tree, seed, turn, dlq) => {
        const runner = run(tree, seed, { at: { turn, what: 'cancel' }, kills: 2 }, dlq)
        const { state, events, queue } = runner.simulation
        if (!events.some(({ type }) => type === 'cancellation_started')) return
        expect(state.status).toBe('CANCELLED')
        expect(queue.size).toBe(0)
        const inScope = scopeOf(runner)
        for (const step of state.steps.values()) {
          if (step.order === null || !inScope(step.name)) continue
          // What was refused has nothing to undo.
          const refused = step.outcome === 'refused' && step.name !== state.failure?.step
          expect(refused ? ['FAILED', 'SKIPPED', 'ROLLED_BACK'] : ['ROLLED_BACK']).toContain(step.status)
        }
      }),
      { numRuns },
    )
  })

  it('W-11 aborted at any moment, nothing is undone any more', () => {
    fc.assert(
      fc.property(trees(), seeds, fc.integer({ min: 1, max: 30 }), fc.boolean(), (tree, seed, turn, dlq) => {
        const { simulation } = run(tree, seed, { at: { turn, what: 'abort' } }, dlq)
        const aborted = simulation.events.findIndex(({ type }) => type === 'abort_started')
        if (aborted === -1) return
        expect(simulation.state.status).toBe('ABORTED')
        const after = simulation.events.slice(aborted).map(({ type }) => type)
        expect(after).not.toContain('compensation_started')
        expect(simulation.queue.size).toBe(0)
      }),
      { numRuns },
    )
  })

  it('W-09 in DLQ mode nothing is undone; requeued, in whatever order, the instance completes', () => {
    check({}, (tree, seed) => {
      const { definition, fails } = toWorkflow(tree, true)
      const cured = new Map(fails)
      const pick = pickerOf(seed)
      const runner = new Runner(definition, { fails: cured, pick }).run()
      const { simulation } = runner
      expect(simulation.state.status).toBe(succeeds(tree, survives, true) ? 'COMPLETED' : 'DLQ')
      for (let requeues = 0; simulation.state.status === 'DLQ'; requeues += 1) {
        expect(requeues).toBeLessThan(200)
        const letters = [...simulation.deadLetters.keys()]
        const step = letters[pick(letters.length)] ?? ''
        cured.set(step, 'never')
        simulation.apply({ type: 'requeued', step, input: payload({ n: 2 }), by })
        runner.run()
      }
      expect(simulation.state.status).toBe('COMPLETED')
      expect(simulation.calls.filter(({ kind }) => kind === 'compensation')).toEqual([])
      expect(simulation.deadLetters.size).toBe(0)
    })
  })

  it('W-09 several dead letters requeued at once resume each their own', () => {
    check({}, (tree, seed) => {
      const { definition, fails } = toWorkflow(tree, true)
      const cured = new Map(fails)
      const runner = new Runner(definition, { fails: cured, pick: pickerOf(seed) }).run()
      const { simulation } = runner
      for (let rounds = 0; simulation.state.status === 'DLQ'; rounds += 1) {
        expect(rounds).toBeLessThan(200)
        const letters = [...simulation.deadLetters.keys()]
        for (const step of letters) {
          // Resumed, one may have won against another, which is past help then.
          if (!simulation.deadLetters.has(step)) continue
          cured.set(step, 'never')
          simulation.apply({ type: 'requeued', step, by })
        }
        runner.run()
      }
      expect(simulation.state.status).toBe('COMPLETED')
    })
  })
})
