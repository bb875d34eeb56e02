// Decisions as the documents that the SQL functions take (`workflows-write.sql`, `workflows-start.sql`). Several decisions about one
// instance become one document. The field names are those of the SQL functions; a document is never stored.

import { newId } from '../../kernel/ids/id.js'
import type { LaterStart } from '../../kernel/model/index.js'
import type { DeadLetter, Decision, HumanDecision, QueueItem, WorkflowEvent } from '../decide/decision.js'
import type { Payload, StepState } from '../decide/state.js'
import type { WorkflowDefinition } from '../definition/definition.js'
import { instanceHasEnded } from '../states.js'
import type { StoredInstance } from './stored-instance.js'

/** Several decisions about one instance, one after the other, on their way into the tables together. */
export interface Change {
  readonly steps: Map<string, StepState>
  /** What becomes of a step's place in the queue; where nothing is said it stays as it is. */
  readonly queue: Map<string, QueueItem | 'removed'>
  readonly abort: Set<string>
  readonly letters: Map<string, DeadLetter | 'removed'>
  readonly humanDecisions: HumanDecision[]
  readonly events: WorkflowEvent[]
  instance: Decision['instance']
}

export const noChange = (): Change => ({
  steps: new Map(),
  queue: new Map(),
  abort: new Set(),
  letters: new Map(),
  humanDecisions: [],
  events: [],
  instance: {},
})

export function addDecision(change: Change, decision: Decision): void {
  for (const step of decision.steps) change.steps.set(step.name, step)
  for (const { step } of decision.remove) change.queue.set(step, 'removed')
  for (const item of decision.enqueue) change.queue.set(item.step, item)
  for (const step of decision.abort) change.abort.add(step)
  for (const step of decision.removedDeadLetters) change.letters.set(step, 'removed')
  for (const letter of decision.deadLetters) change.letters.set(letter.step, letter)
  change.humanDecisions.push(...decision.humanDecisions)
  change.events.push(...decision.events)
  change.instance = { ...change.instance, ...decision.instance }
}

/** A change as the document that `holdfast.write_workflow_changes` takes. Built by hand: it is what a worker does most. */
export function changeDocument(before: StoredInstance, change: Change, token: string): string {
  const { state, revision, definitionId } = before
  // Only an instance that begins later has a start in the queue.
  const start = state.status === 'PENDING' ? ',"removes_start":true' : ''
  return `{"id":"${state.id}","revision":${revision},"definition_id":${definitionId},"token":"${token}"${start}${bodyOf(before, change)}}`
}

/** A start that a worker decides on: at a time, or at once; after it has checked the input, where nothing else has. */
export type QueuedStart = LaterStart | { readonly unchecked: true }

/** A new instance as the document that `holdfast.start_workflow_instances` takes. */
export function startDocument(
  before: StoredInstance,
  change: Change,
  { key: ownKey, queued }: { readonly key: string | undefined; readonly queued: QueuedStart | undefined },
): string {
  const { state, definitionId, definition } = before
  const head = { id: state.id, definition_id: definitionId, name: definition.name, version: definition.version }
  const key = ownKey === undefined ? '' : `,"key":${JSON.stringify(ownKey)}`
  const start = queued === undefined ? '' : `,"status":"PENDING",${JSON.stringify(queued).slice(1, -1)}`
  return `${JSON.stringify(head).slice(0, -1)}${key}${start}${payloadFields('input', state.input)}${bodyOf(before, change)}}`
}

function bodyOf(before: StoredInstance, change: Change): string {
  const { definition, epochs } = before
  const numbers = numbersOf(definition)
  const names = new Set([...change.steps.keys(), ...change.queue.keys(), ...change.abort])
  const steps: string[] = []
  for (const name of names) {
    const step = change.steps.get(name) ?? before.state.steps.get(name)
    if (step) steps.push(stepFields(step, { number: numbers.get(name) ?? 0, epoch: epochs.get(name) }))
  }
  let json = `,"steps":[${steps.join(',')}],"events":[${change.events.map(eventFields).join(',')}]`
  json += instanceFields(change.instance)
  const letters = [...change.letters]
  const gone = letters.flatMap(([step, letter]) => (letter === 'removed' ? [numbers.get(step) ?? 0] : []))
  const added = letters.flatMap(([, letter]) => (letter === 'removed' ? [] : [letter]))
  if (gone.length > 0) json += `,"removed_dead_letters":[${gone.join(',')}]`
  if (added.length > 0)
    json += `,"dead_letters":[${added.map((it) => letterFields(it, numbers.get(it.step) ?? 0)).join(',')}]`
  if (change.humanDecisions.length > 0) json += `,"decisions":${JSON.stringify(change.humanDecisions)}`
  return json

  function stepFields(step: StepState, { number, epoch }: { number: number; epoch: number | undefined }): string {
    const known = before.state.steps.get(step.name)
    let row = `{"number":${number}`
    row += epoch === undefined ? `,"name":${JSON.stringify(step.name)}` : `,"epoch":${epoch}`
    row += `,"status":"${step.status}"`
    // What is false or 0 is left out: it is most of a step, and this is what a worker sends most.
    if (step.inFlight) row += ',"in_flight":true'
    if (step.attempts > 0) row += `,"attempts":${step.attempts}`
    if (step.compensationAttempts > 0) row += `,"compensation_attempts":${step.compensationAttempts}`
    if (step.dlq) row += ',"dlq":true'
    if (hasEnded(step)) row += ',"ended":true'
    if (step.outcome !== null) row += `,"outcome":"${step.outcome}"`
    if (step.compensationOutcome !== null) row += `,"compensation_outcome":"${step.compensationOutcome}"`
    if (step.order !== null) row += `,"ended_order":${step.order}`
    if (step.side !== null) row += `,"side":"${step.side}"`
    if (step.failure !== null) row += `,"failure":${JSON.stringify(step.failure)}`
    if (step.input !== known?.input) row += `,"has_input":true${payloadFields('input', step.input)}`
    if (step.output !== known?.output && step.output !== null)
      row += `,"has_output":true${payloadFields('output', step.output)}`
    return `${row}${queueFields(change.queue.get(step.name), change.abort.has(step.name))}}`
  }
}

function queueFields(place: QueueItem | 'removed' | undefined, abort: boolean): string {
  if (place === undefined) return abort ? ',"queue":"keep","abort":true' : ',"queue":"keep"'
  if (place === 'removed') return ',"queue":"remove"'
  const { handler, kind, delayMs, priority } = place
  const compensates = kind === 'compensation' ? ',"compensates":true' : ''
  const delay = delayMs > 0 ? `,"delay_ms":${delayMs}` : ''
  return `,"queue":"add","handler":${JSON.stringify(handler)}${compensates}${delay},"priority":${priority}`
}

const hasEnded = ({ status, order, inFlight }: StepState): boolean =>
  !inFlight && (order !== null || status === 'SKIPPED') && status !== 'COMPENSATING'

function instanceFields({ status, output, failure }: Decision['instance']): string {
  let json = ''
  if (status !== undefined) json += `,"status":"${status}","ended":${instanceHasEnded(status)}`
  if (output) json += `,"has_output":true${payloadFields('output', output)}`
  if (failure === null) json += ',"has_failure":true'
  else if (failure) {
    json += `,"has_failure":true,"failed_step":${JSON.stringify(failure.step)},"failure":${JSON.stringify(failure.failure)}`
  }
  return json
}

function payloadFields(name: 'input' | 'output', { json, notes }: Payload): string {
  return `,"${name}":${json}${notes === null ? '' : `,"${name}_notes":${JSON.stringify(notes)}`}`
}

function eventFields({ type, actor, reason, detail: more, ...rest }: WorkflowEvent): string {
  const by = actor === undefined ? '' : `,"actor":${JSON.stringify(actor)},"reason":${JSON.stringify(reason ?? '')}`
  return `{"type":"${type}"${by},"detail":${JSON.stringify({ ...rest, ...more })}}`
}

function letterFields({ step, kind, type, input, failure, reason }: DeadLetter, number: number): string {
  const fields = { id: newId(), number, step, kind, type, failure, reason }
  return `${JSON.stringify(fields).slice(0, -1)}${payloadFields('input', input)}}`
}

const numbers = new WeakMap<WorkflowDefinition, ReadonlyMap<string, number>>()

/** The number of a step is its place in the definition, which never changes. */
function numbersOf(definition: WorkflowDefinition): ReadonlyMap<string, number> {
  let known = numbers.get(definition)
  if (known === undefined) {
    known = new Map(definition.steps.map(({ name }, place) => [name, place]))
    numbers.set(definition, known)
  }
  return known
}
