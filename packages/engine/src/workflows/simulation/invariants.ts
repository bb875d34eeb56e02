import assert from 'node:assert/strict'
import type { Decision } from '../decide/decision.js'
import type { InstanceState, StepState } from '../decide/state.js'
import { instanceHasEnded, type StepStatus } from '../states.js'
import { instanceMayGo, stepMayGo } from './arrows.js'

/** What the checks look at. */
interface Observed {
  readonly state: InstanceState
  readonly tasks: ReadonlySet<string>
  readonly queue: ReadonlyMap<string, { readonly claimed: boolean }>
  readonly deadLetters: ReadonlyMap<string, unknown>
}

/** What holds for every decision: statuses change only along the arrows of states.ts, and nothing ended changes. */
export function checkDecision(before: InstanceState, decision: Decision, after: InstanceState): void {
  const moved = `${before.status} --> ${after.status}`
  assert(before.status === after.status || instanceMayGo(before.status, after.status), moved)
  for (const step of decision.steps) {
    const was = before.steps.get(step.name)?.status ?? '[*]'
    assert(was === step.status || stepMayGo(was, step.status), `${step.name}: ${was} --> ${step.status}`)
  }
  if (instanceHasEnded(before.status)) assert.deepEqual(decision.instance, {})
}

const unfinished: readonly StepStatus[] = ['PENDING', 'RUNNING', 'PAUSED', 'WAITING_DECISION']

/** What holds after every decision. */
export function checkState(simulation: Observed): void {
  const { state, queue, deadLetters } = simulation
  const steps = [...state.steps.values()]
  const statuses = steps.map(({ status }) => status)
  for (const step of steps) {
    checkItems(simulation, step)
    assert.equal(deadLetters.has(step.name), step.dlq, `dead letter of ${step.name}`)
  }
  const orders = steps.flatMap(({ order }) => order ?? [])
  assert.equal(new Set(orders).size, orders.length)
  const undoing = statuses.filter((status) => status === 'COMPENSATING').length
  if (state.status === 'COMPLETED') assert(undoing === 0 && !statuses.includes('ROLLED_BACK'))
  if (state.status === 'DLQ') assert(deadLetters.size > 0)
  if (instanceHasEnded(state.status)) assert(!statuses.some((status) => unfinished.includes(status)))
  else {
    assert(undoing <= 1, 'one compensation at a time')
    // Never asleep: there is an item, or a person to decide or to requeue.
    const waits = ['PENDING', 'DLQ'].includes(state.status) || statuses.includes('WAITING_DECISION')
    assert(queue.size > 0 || waits, `it is ${state.status} and nothing will happen`)
  }
}

/** A step has an item exactly while it is queued or claimed. */
function checkItems({ queue, tasks, state }: Observed, step: StepState): void {
  const task = tasks.has(step.name)
  const ofStep = queue.get(`step ${step.name}`)
  const ofCompensation = queue.get(`compensation ${step.name}`)
  const what = `${step.name} ${step.status} in ${state.status}`
  assert(ofStep === undefined || ofCompensation === undefined, `${what}: one item`)
  const queued = task && step.status === 'PENDING'
  const item = ofStep ?? ofCompensation
  assert.equal(item !== undefined, queued || step.inFlight || step.status === 'COMPENSATING', `${what}: item`)
  assert.equal(item?.claimed ?? false, step.inFlight, `${what}: claimed`)
}
