import { newId } from '../../kernel/ids/id.js'
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

export function isEmpty({ steps, queue, events, instance }: Change): boolean {
  return steps.size === 0 && queue.size === 0 && events.length === 0 && Object.keys(instance).length === 0
}

/** A change as the document that `holdfast.write_workflows` takes. Built by hand: it is what a worker does most. */
export function changeDocument(before: StoredInstance, change: Change, token: string): string {
  const { state, revision, definitionId } = before
  // Only an instance that begins later has a start in the queue.
  const root = state.status === 'PENDING' ? ',"root":true' : ''
  return `{"id":"${state.id}","revision":${revision},"definition_id":${definitionId},"token":"${token}"${root}${bodyOf(before, change)}}`
}

/** A new instance as the document that `holdfast.start_workflows` takes. */
export function startDocument(
  before: StoredInstance,
  change: Change,
  { key: ownKey, startAt }: { readonly key: string | undefined; readonly startAt: Date | undefined },
): string {
  const { state, definitionId, definition } = before
  const head = { id: state.id, definition_id: definitionId, name: definition.name, version: definition.version }
  const key = ownKey === undefined ? '' : `,"key":${JSON.stringify(ownKey)}`
  // It is decided on then.
  const start = startAt === undefined ? '' : `,"status":"PENDING","start_ms":${startAt.getTime()}`
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
  if (gone.length > 0) json += `,"unletters":[${gone.join(',')}]`
  if (added.length > 0)
    json += `,"letters":[${added.map((it) => letterFields(it, numbers.get(it.step) ?? 0)).join(',')}]`
  if (change.humanDecisions.length > 0) json += `,"decisions":${JSON.stringify(change.humanDecisions)}`
  return json

  function stepFields(step: StepState, { number, epoch }: { number: number; epoch: number | undefined }): string {
    const known = before.state.steps.get(step.name)
    let row = `{"n":${number}`
    row += epoch === undefined ? `,"name":${JSON.stringify(step.name)}` : `,"epoch":${epoch}`
    row += `,"status":"${step.status}","fl":${step.inFlight},"att":${step.attempts},"catt":${step.compensationAttempts}`
    row += `,"dlq":${step.dlq},"over":${isOver(step)}`
    if (step.outcome !== null) row += `,"outcome":"${step.outcome}"`
    if (step.compensationOutcome !== null) row += `,"compensation_outcome":"${step.compensationOutcome}"`
    if (step.order !== null) row += `,"ord":${step.order}`
    if (step.side !== null) row += `,"side":"${step.side}"`
    if (step.failure !== null) row += `,"failure":${JSON.stringify(step.failure)}`
    if (step.input !== known?.input) row += `,"hi":true${payloadFields('input', step.input)}`
    if (step.output !== known?.output && step.output !== null)
      row += `,"ho":true${payloadFields('output', step.output)}`
    return `${row}${queueFields(change.queue.get(step.name), change.abort.has(step.name))}}`
  }
}

function queueFields(place: QueueItem | 'removed' | undefined, abort: boolean): string {
  if (place === undefined) return `,"q":0,"abort":${abort}`
  if (place === 'removed') return ',"q":2'
  const { handler, kind, priority } = place
  const call = `"h":${JSON.stringify(handler)},"comp":${kind === 'compensation'}`
  return `,"q":1,${call},"delay":${place.delayMs},"prio":${priority}`
}

const isOver = ({ status, order, inFlight }: StepState): boolean =>
  !inFlight && (order !== null || status === 'SKIPPED') && status !== 'COMPENSATING'

function instanceFields({ status, output, failure }: Decision['instance']): string {
  let json = ''
  if (status !== undefined) json += `,"status":"${status}","ended":${instanceHasEnded(status)}`
  if (output) json += `,"ho":true${payloadFields('output', output)}`
  if (failure === null) json += ',"hf":true'
  else if (failure) {
    json += `,"hf":true,"failed_step":${JSON.stringify(failure.step)},"failure":${JSON.stringify(failure.failure)}`
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
  const fields = { id: newId(), n: number, step, kind, type, failure, reason }
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
