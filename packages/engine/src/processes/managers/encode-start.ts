import type { Envelope, Outgoing } from '../../commands/index.js'
import type { Codec } from '../../kernel/codec/codec.js'
import { encodeDetails, type StartDetails } from '../encode-start.js'
import { sendToJson } from '../queries/apply-managed.js'
import type { ManagedProcess } from '../queries/read-managed.js'
import type { EncodedStart } from '../queries/start-processes.js'
import type { DefinedManager } from './define.js'
import { Draft } from './draft.js'
import { encodeStepCommand } from './encode-step-command.js'
import { enter } from './forward.js'
import { handlersOf } from './handlers.js'

/** What the start of a step-based process may say: its first command goes out with it. */
export type ManagerStartDetails = Pick<StartDetails, 'id' | 'key' | 'deadline' | 'attributes' | 'batch'>

export interface EncodedManagedStart extends EncodedStart {
  readonly envelope: Envelope | undefined
}

/** Asks the handlers for the first step. What they throw is the caller's. */
export async function encodeManagedStart(
  definition: DefinedManager,
  input: unknown,
  details: ManagerStartDetails,
  { codec, outgoing, where }: { readonly codec: Codec; readonly outgoing: Outgoing; readonly where: string },
): Promise<EncodedManagedStart> {
  const { id, key, state, row: shared } = await encodeDetails(definition, input, details, { codec, where })
  const first = firstStep(definition, id, JSON.parse(state.json), state.notes, codec)
  const envelope = first.send ? await encodeStepCommand(outgoing, { ...definition, id }, first.send) : undefined
  const hasLimit = first.event?.detail.timeoutMs !== undefined || 'deadline_ms' in shared || 'deadline_in_ms' in shared
  const row = {
    ...shared,
    model: 'STEP_BASED',
    status: 'WAITING_FOR_REPLY',
    first: first.event,
    // A worker sets the limit of a wait at once, by the clock of the database.
    looks: first.event?.kind === 'WAIT' && hasLimit ? true : undefined,
  }
  const json = `${JSON.stringify(row).slice(0, -1)},"state":${state.json}${sendToJson(envelope)}}`
  return { id, key, envelope, json }
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
