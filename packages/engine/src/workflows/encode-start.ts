// Encodes the start of an instance: checks id and key, and makes the first decision. `client.ts` calls it; nothing is written here.

import type { Duration } from '../kernel/duration/duration.js'
import { newId, parseId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import { laterStart } from '../kernel/model/index.js'
import { decide } from './decide/decide.js'
import { type Decision, nothing } from './decide/decision.js'
import type { KnownDefinition } from './definitions.js'
import type { WorkflowEngine } from './engine.js'
import { addDecision, noChange, type QueuedStart, startDocument } from './store/document.js'
import { afterWrite, type StoredInstance, withDecision } from './store/stored-instance.js'

/** What every way of starting an instance may say. */
export interface WorkflowStartDetails {
  readonly id?: string
  /** Your own name for it, unique per workflow: a second start returns the first instance. */
  readonly key?: string
  /** Nothing is called before this moment. */
  readonly startAt?: Date | string
  /** How long to wait before anything is called. Goes without `startAt`. */
  readonly delay?: Duration
}

export interface EncodedStart {
  readonly id: string
  readonly key: string | undefined
  readonly document: string
  readonly decision: Decision
  readonly after: StoredInstance
}

/** The instance with what its beginning decides; if it begins later, or a worker has to check its input, with its start in the queue. */
export function encodeStart(
  { id: definitionId, definition, isUnchecked }: KnownDefinition & { readonly isUnchecked: boolean },
  input: unknown,
  options: WorkflowStartDetails,
  { engine, where }: { readonly engine: Pick<WorkflowEngine, 'codec' | 'payloads'>; readonly where: string },
): EncodedStart {
  const id = options.id === undefined ? newId() : parseId(`${where}: id`, options.id)
  const key = options.key === undefined ? undefined : checkKey(where, options.key)
  const later = laterStart(where, options)
  const queued: QueuedStart | undefined = isUnchecked ? { ...later, unchecked: true } : later
  const encoded = engine.codec.encode(input ?? null, { at: 'input' })
  const before: StoredInstance = {
    definition,
    definitionId,
    revision: -1,
    epochs: new Map(),
    madeAt: performance.now(),
    state: {
      id,
      status: 'PENDING',
      // Input that is not checked and has no notes has come through SQL, and is not encoded.
      input: isUnchecked ? { ...encoded, notes: encoded.notes ?? {} } : encoded,
      output: null,
      failure: null,
      steps: new Map(),
    },
  }
  const begins = { type: 'started' } as const
  const decision = queued ? nothing : decide(definition, before.state, begins, { payloads: engine.payloads })
  const change = noChange()
  addDecision(change, decision)
  const document = startDocument(before, change, { queued, key })
  const after = afterWrite(before, withDecision(before, decision))
  return { id, key, document, decision, after }
}
