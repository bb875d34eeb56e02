import type { Envelope, Outgoing } from '../../commands/index.js'
import type { Codec } from '../../kernel/codec/codec.js'
import { newId, parseId } from '../../kernel/ids/id.js'
import { checkKey } from '../../kernel/ids/key.js'
import { parseWith } from '../../kernel/validation/schema.js'
import { sendToJson } from '../queries/apply-managed.js'
import type { ManagedDetail, ManagedProcess } from '../queries/read-managed.js'
import type { SealedStart } from '../queries/start-processes.js'
import { checkAttributes, deadlineOf, type StartDetails } from '../seal-start.js'
import type { DefinedManager } from './define.js'
import { Draft } from './draft.js'
import { encodeStepCommand } from './encode-step-command.js'
import { enter } from './forward.js'
import { handlersOf } from './handlers.js'

/** What the start of a step-based process may say: its first command goes out with it. */
export type ManagerStartDetails = Pick<StartDetails, 'id' | 'key' | 'deadline' | 'attributes' | 'batch'>

export interface SealedManagedStart extends SealedStart {
  readonly envelope: Envelope | undefined
}

/** Checks state and details where they enter, and asks the handlers for the first step. What they throw is the caller's. */
export async function sealManagedStart(
  definition: DefinedManager,
  input: unknown,
  details: ManagerStartDetails,
  { codec, outgoing, where }: { readonly codec: Codec; readonly outgoing: Outgoing; readonly where: string },
): Promise<SealedManagedStart> {
  const id = details.id === undefined ? newId() : parseId(`${where}: id`, details.id)
  const key = details.key === undefined ? undefined : checkKey(where, details.key)
  const parsed = await parseWith(definition.stateSchema, input, where)
  const state = codec.encode(parsed, { at: 'state' })
  const first = firstStep(definition, id, JSON.parse(state.json), state.notes, codec)
  const envelope = first.send ? await encodeStepCommand(outgoing, { ...definition, id }, first.send) : undefined
  const deadline = deadlineOf(where, details.deadline ?? definition.deadline?.(parsed))
  const row = {
    id,
    type: definition.name,
    model: 'STEP_BASED',
    status: 'WAITING_FOR_REPLY',
    version: definition.version,
    key,
    token: newId(),
    batch_id: details.batch === undefined ? undefined : parseId(`${where}: batch`, details.batch),
    attributes: checkAttributes(where, details.attributes),
    notes: state.notes,
    first: first.event,
    looks: first.event?.kind === 'WAIT' && looksLater(first.event.detail, deadline) ? true : undefined,
    ...deadline,
  }
  const json = `${JSON.stringify(row).slice(0, -1)},"state":${state.json}${sendToJson(envelope)}}`
  return { id, key, envelope, json }
}

/** A first step that waits with a time limit: a worker sets the limit at once, by the clock of the database. */
function looksLater({ timeoutMs }: ManagedDetail, deadline: object): boolean {
  return timeoutMs !== undefined || Object.keys(deadline).length > 0
}

/** The handlers get the state as it will be read, so that the first step sees what the others see. */
function firstStep(
  definition: DefinedManager,
  id: string,
  state: unknown,
  stateNotes: ManagedProcess['stateNotes'],
  codec: Codec,
) {
  const handlers = handlersOf(definition)
  const draft = new Draft({
    managed: beforeTheFirst(definition, id, state, stateNotes),
    completed: [],
    handlers,
    codec,
  })
  enter(draft, handlers.firstStep(draft.state), {})
  const [event] = draft.changes.events
  return { event, send: draft.changes.send }
}

function beforeTheFirst(
  { name, version }: DefinedManager,
  id: string,
  state: unknown,
  stateNotes: ManagedProcess['stateNotes'],
): ManagedProcess {
  const step = { kind: 'WAIT', name: '', occurrence: 0, status: 'STARTED', attempt: null } as const
  const last = { ...step, seq: 0, detail: {}, at: 0 }
  const nothing = { epoch: 0, generation: 1, cancel: null, responses: 0, seen: 0, seq: 0, ahead: [], unwind: null }
  return { id, type: name, version, status: 'PENDING', state, stateNotes, last, now: 0, deadline: null, ...nothing }
}
