// An instance as it is stored, with the revision and the epochs that fence writes, and the pure functions that apply
// claims and decisions to it. `instance-events.ts` keeps these in memory between writes. A kept instance may be outdated:
// only the condition of the write decides.

import type { Notes } from '../../kernel/codec/notes.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { CallOutcome } from '../../kernel/model/index.js'
import { applyDecision, type Decision } from '../decide/decision.js'
import { type CallKind, type InstanceState, isDone, type Payload, type StepState } from '../decide/state.js'
import type { WorkflowDefinition } from '../definition/definition.js'
import type { ClaimedStep } from '../queries/claim-steps.js'
import type { InstanceStatus, StepStatus } from '../states.js'

/** An instance as it stands in the tables at one revision. */
export interface StoredInstance {
  readonly definition: WorkflowDefinition
  readonly definitionId: number
  readonly revision: number
  readonly state: InstanceState
  /** Of every step that has a row: how often it has been claimed. What a decision changes is fenced by it. */
  readonly epochs: ReadonlyMap<string, number>
  /** When it was made, by this program's `performance.now()`; for measuring only. */
  readonly madeAt: number
}

/** What a worker holds of a step. */
export interface StepClaim {
  readonly step: string
  readonly kind: CallKind
  readonly epoch: number
  /** The claim itself has made it a running call; otherwise a decision has to say what is to be done. */
  readonly fresh: boolean
  /** Calls begun, this one included, where it is fresh. */
  readonly attempts: number
}

export const claimOf = ({ compensates, epoch, fresh, attempts }: ClaimedStep, step: string): StepClaim => ({
  step,
  kind: compensates ? 'compensation' : 'step',
  epoch,
  fresh,
  attempts,
})

/**
 * The state with a claim in it that was made since it was read. Claims change a step without a decision, so a state that
 * is kept in memory does not know of them.
 */
export function withClaim(stored: StoredInstance, claim: StepClaim): StoredInstance {
  const { step: name, kind, epoch, fresh, attempts } = claim
  const step = stored.state.steps.get(name)
  const known = stored.epochs.get(name)
  if (step === undefined || known === undefined || known > epoch) {
    throw new HoldfastError('HF_LEASE_LOST', { id: `${stored.state.id}/${name}`, epoch: String(epoch) })
  }
  if (known === epoch) return stored
  const epochs = new Map(stored.epochs).set(name, epoch)
  if (!fresh) return { ...stored, epochs }
  const begun: StepState =
    kind === 'step'
      ? { ...step, status: 'RUNNING', attempts, inFlight: true }
      : { ...step, compensationAttempts: attempts, inFlight: true }
  const steps = new Map(stored.state.steps).set(name, begun)
  return { ...stored, epochs, state: { ...stored.state, steps } }
}

/** The state once a decision is in it; the revision is what one write makes of it, however many decisions it holds. */
export function withDecision(stored: StoredInstance, decision: Decision): StoredInstance {
  return { ...stored, state: applyDecision(stored.state, decision) }
}

/** As the tables have it after the write. */
export function afterWrite(before: StoredInstance, decided: StoredInstance): StoredInstance {
  const epochs = new Map(decided.epochs)
  for (const name of decided.state.steps.keys()) if (!epochs.has(name)) epochs.set(name, 0)
  return { ...decided, epochs, revision: before.revision + 1 }
}

export interface InstanceRow {
  readonly id: string
  readonly definition_id: number
  readonly revision: number
  readonly status: InstanceStatus
  readonly input: string | null
  readonly input_notes: Notes | null
  readonly output: string | null
  readonly output_notes: Notes | null
  readonly failed_step: string | null
  readonly failure: Failure | null
  readonly steps: readonly StepRow[] | null
  readonly age_ms: number
}

type StepRow = readonly [
  number: number,
  epoch: number,
  status: StepStatus,
  input: string | null,
  inputNotes: Notes | null,
  output: string | null,
  outputNotes: Notes | null,
  attempts: number,
  compensationAttempts: number,
  order: number | null,
  inFlight: boolean,
  side: 'next' | 'else' | null,
  failure: Failure | null,
  dlq: boolean,
  outcome: CallOutcome | null,
  compensationOutcome: 'refused' | 'unknown' | null,
]

export function toStoredInstance(row: InstanceRow, definition: WorkflowDefinition): StoredInstance {
  const steps = new Map<string, StepState>()
  const epochs = new Map<string, number>()
  for (const each of row.steps ?? []) {
    const step = toStep(each, definition)
    steps.set(step.name, step)
    epochs.set(step.name, each[1])
  }
  const failure = row.failed_step !== null && row.failure !== null
  return {
    definition,
    definitionId: row.definition_id,
    revision: row.revision,
    epochs,
    madeAt: performance.now() - row.age_ms,
    state: {
      id: row.id,
      status: row.status,
      input: payload(row.input, row.input_notes),
      output: row.status === 'COMPLETED' ? payload(row.output, row.output_notes) : null,
      failure: failure ? { step: row.failed_step, failure: row.failure } : null,
      steps,
    },
  }
}

function toStep(row: StepRow, definition: WorkflowDefinition): StepState {
  const [number, , status, input, inputNotes, output, outputNotes, attempts, compensationAttempts] = row
  const [, , , , , , , , , order, inFlight, side, failure, dlq, outcome, compensationOutcome] = row
  const step: StepState = {
    name: definition.steps[number]?.name ?? '',
    status,
    input: payload(input, inputNotes),
    output: null,
    attempts,
    compensationAttempts,
    outcome,
    compensationOutcome,
    order,
    inFlight,
    side,
    failure,
    dlq,
  }
  // A JSON null is no value to PostgreSQL: a step that is done has an output all the same.
  return isDone(step) || output !== null ? { ...step, output: payload(output, outputNotes) } : step
}

const payload = (json: string | null, notes: Notes | null): Payload => ({ json: json ?? 'null', notes })
