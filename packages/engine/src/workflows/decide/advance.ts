// Moves an instance forward through its graph: reaches steps, evaluates conditions, opens forks, fires joins, completes
// the instance. `decide.ts` and the rules of this folder call it. Pure. A join must fire exactly once, and a step must
// never be reached twice.

import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import type { ConditionStep } from '../definition/definition.js'
import { didNothing, outputOfPath, pathHasFailed } from './blocks.js'
import { giveUp } from './fail.js'
import type { Block } from './plan.js'
import { skipOtherBranches } from './skip.js'
import { emptyStep, type Payload, type StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** A step to be reached, and what with. */
interface Arrival {
  readonly step: string
  readonly input: Payload
}

/**
 * Moves forward until every path is at a step that needs a handler or a person. Each path is followed to its end before the
 * next branch begins, so that no path has a gap.
 */
export function proceed(t: Transition, arrivals: readonly Arrival[]): void {
  const open = arrivals.toReversed()
  for (let arrival = open.pop(); arrival !== undefined; arrival = open.pop()) {
    open.push(...reach(t, arrival).toReversed())
  }
}

function reach(t: Transition, { step: name, input }: Arrival): readonly Arrival[] {
  if (leadsNowhere(t, name)) return []
  // Another step has failed meanwhile: for good, or until an operator acts.
  if (t.status === 'DLQ') t.create(name, 'PAUSED', input)
  if (t.status !== 'RUNNING') return []
  const step = t.plan.step(name)
  switch (step.type) {
    case 'task':
      t.create(name, 'PENDING', input)
      t.enqueue(name, 'step', step.delay)
      return []
    case 'human':
      t.write(stepEvent('step_started', t.create(name, 'WAITING_DECISION', input)))
      return []
    case 'condition':
      return reachCondition(t, step, input)
    case 'fork':
    case 'parallel':
      return reachFork(t, name, input)
    case 'save_point':
      return complete(t, emptyStep(name, 'PENDING', input), input)
    case 'join':
      // It waits since its fork was reached, and is not led to: its branches arrive.
      return []
  }
}

/** While its fork was being begun, another branch has won already, or this one has failed. */
function leadsNowhere(t: Transition, name: string): boolean {
  for (let place = t.plan.placeOf(name); place !== undefined; place = t.plan.placeOf(place.fork)) {
    const closer = t.step(t.plan.blockOf(place.fork)?.closer ?? '')
    if (closer === undefined || !canFire(closer)) return true
  }
  return false
}

function reachCondition(t: Transition, { name }: ConditionStep, input: Payload): readonly Arrival[] {
  const reached = emptyStep(name, 'PENDING', input)
  const result = evaluate(t, name, input)
  if (typeof result !== 'boolean') {
    giveUp(t, reached, result)
    return []
  }
  return complete(t, { ...reached, side: result ? 'next' : 'else' }, input)
}

function evaluate(t: Transition, name: string, input: Payload): boolean | Failure {
  try {
    const json = t.surroundings.payloads.reveal(input)
    return t.plan.conditionOf(name)?.test({ input: json, instanceId: t.id, stepName: name }) ?? false
  } catch (error) {
    if (error instanceof HoldfastError) return classifyFailure(error, { unknown: 'permanent' })
    throw error
  }
}

function reachFork(t: Transition, name: string, input: Payload): readonly Arrival[] {
  const block = t.plan.blockOf(name)
  if (block === undefined) return []
  const ownJoin = block.closer === name
  const order = ownJoin ? null : t.nextOrder()
  const reached = t.create(name, ownJoin ? 'RUNNING' : 'COMPLETED', input)
  t.write(stepEvent('fork_started', t.change(reached, { order, output: ownJoin ? null : input })))
  if (!ownJoin) t.create(block.closer, 'PENDING', input)
  return block.branches.map((step) => ({ step, input }))
}

/** A step has ended well: what follows it is reached. */
export function complete(t: Transition, step: StepState, output: Payload): readonly Arrival[] {
  const { type } = t.plan.step(step.name)
  const status = type === 'human' ? 'CONFIRMED' : 'COMPLETED'
  const done = t.change(step, {
    status,
    output,
    order: t.nextOrder(),
    inFlight: false,
    failure: null,
    outcome: 'completed',
  })
  if (type === 'join') t.write(stepEvent('join_completed', done))
  else if (type === 'condition') {
    t.write(stepEvent('condition_evaluated', done, { detail: { result: done.side === 'next' } }))
  } else if (type !== 'human') t.write(stepEvent('step_completed', done, { attempts: done.attempts }))
  return follow(t, done, output)
}

function follow(t: Transition, done: StepState, output: Payload): readonly Arrival[] {
  const next = t.plan.nextOf(done)
  if (next !== undefined) return [{ step: next, input: output }]
  const place = t.plan.placeOf(done.name)
  const block = place === undefined ? undefined : t.plan.blockOf(place.fork)
  if (block === undefined) {
    t.setInstance({ status: 'COMPLETED', output })
    t.write({ type: 'workflow_completed', status: 'COMPLETED' })
    return []
  }
  return arrive(t, block.closer)
}

/** The joins that were ready while the instance was frozen. */
export function arriveAgain(t: Transition): void {
  for (const { name, status } of t.steps()) {
    const block = t.plan.blockClosedBy(name)
    const waits = block?.fork === name ? status === 'RUNNING' : block !== undefined
    if (waits) proceed(t, arrive(t, name))
  }
}

/** The joins that may have waited for a branch that has failed now. */
export function fireJoins(t: Transition): void {
  for (let joins = t.takeJoinsToCheck(); joins.length > 0; joins = t.takeJoinsToCheck()) {
    for (const join of joins) if (t.status === 'RUNNING') proceed(t, arrive(t, join))
  }
}

/** A branch may have ended: fires the join if that is what it waited for, once. */
function arrive(t: Transition, closer: string): readonly Arrival[] {
  const waiting = t.step(closer)
  const block = t.plan.blockClosedBy(closer)
  if (waiting === undefined || block === undefined || !canFire(waiting)) return []
  const parts = endedBranches(t, block)
  if (parts.length === 0 || (block.strategy === 'all' && parts.length < block.branches.length)) return []
  if (t.status === 'DLQ') {
    if (closer !== block.fork) t.change(waiting, { status: 'PAUSED' })
    return []
  }
  if (block.strategy === 'any') for (const [branch] of parts) skipOtherBranches(t, block, branch)
  const output = t.surroundings.payloads.combine(parts)
  return complete(t, { ...waiting, input: closer === block.fork ? waiting.input : output }, output)
}

const canFire = ({ status }: StepState): boolean => status === 'PENDING' || status === 'RUNNING' || status === 'PAUSED'

function endedBranches(t: Transition, block: Block): (readonly [string, Payload])[] {
  const ended = block.branches.flatMap((branch) => {
    const output = outputOfPath(t, branch)
    return output === null ? [] : [[branch, output] as const]
  })
  return block.strategy === 'any' ? winnerOf(t, block, ended) : ended
}

/**
 * The branch that fires an `any` join. A branch that ended because a condition was false, and has called no handler and
 * needed no person, is no success: it wins only when no other branch can. In the DLQ two branches may have ended before the join
 * was evaluated; the first of the definition wins then.
 */
function winnerOf(
  t: Transition,
  { branches }: Block,
  ended: readonly (readonly [string, Payload])[],
): (readonly [string, Payload])[] {
  const winner = ended.find(([branch]) => !didNothing(t, branch))
  if (winner !== undefined) return [winner]
  const [empty] = ended
  // A step that waits for an operator in the DLQ may still succeed.
  const isLost = (branch: string) => !t.plan.definition.dlq && pathHasFailed(t, branch)
  const over = branches.every((branch) => isLost(branch) || ended.some(([name]) => name === branch))
  return empty !== undefined && over ? [empty] : []
}
