import type { Envelope, Outgoing } from '../../commands/index.js'
import type { Codec } from '../../kernel/codec/codec.js'
import { type LaterStart, laterStart } from '../../kernel/model/index.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { encodeDetails, type StartDetails } from '../encode-start.js'
import { sendToJson } from '../queries/apply-managed.js'
import type { ManagedProcess } from '../queries/read-managed.js'
import type { EncodedStart } from '../queries/start-processes.js'
import type { DefinedManager } from './define.js'
import { type CommandSent, Draft } from './draft.js'
import { encodeStepCommand } from './encode-step-command.js'
import { enter } from './forward.js'
import { handlersOf } from './handlers.js'

/** What the start of a step-based process may say: its first command goes out with it. */
export type ManagerStartDetails = StartDetails

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
  const begins = laterStart(where, details)
  if (begins && !first.send)
    throw invalidOption(where, 'startAt', 'is for a first step that sends a command; this one waits')
  const envelope = first.send
    ? await encodeStepCommand(outgoing, { ...definition, id }, begins ? later(first.send, details) : first.send)
    : undefined
  const hasLimit = first.event?.detail.timeoutMs !== undefined || 'deadline_ms' in shared || 'deadline_in_ms' in shared
  const row = {
    ...shared,
    ...laterDeadline(shared, begins),
    model: 'STEP_BASED',
    status: 'WAITING_FOR_REPLY',
    first: first.event,
    // A worker sets the limit of a wait at once, by the clock of the database.
    looks: first.event?.kind === 'WAIT' && hasLimit ? true : undefined,
  }
  const json = `${JSON.stringify(row).slice(0, -1)},"state":${state.json}${sendToJson(envelope)}}`
  return { id, key, envelope, json }
}

/** The process is there at once; its first command is due when it is to begin. */
function later(send: CommandSent, { startAt, delay }: StartDetails): CommandSent {
  const { delay: _, startAt: __, ...options } = send.command.options ?? {}
  const due = startAt === undefined ? (delay === undefined ? {} : { delay }) : { startAt }
  return { ...send, command: { ...send.command, options: { ...options, ...due } } }
}

/** A deadline that is a time from the start counts from when it begins. */
function laterDeadline(
  { deadline_in_ms: limit }: { readonly deadline_in_ms?: number },
  begins: LaterStart | undefined,
) {
  if (limit === undefined || begins === undefined) return {}
  if ('start_in_ms' in begins) return { deadline_in_ms: limit + begins.start_in_ms }
  return { deadline_in_ms: undefined, deadline_ms: begins.start_ms + limit }
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
