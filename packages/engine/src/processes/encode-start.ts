// Encodes the start of a process as the row that `start_processes` takes, and checks what the caller gave. Nothing is written
// here. Managers share the first part of it. What is checked here is not checked again when the process runs.

import type { Codec, Encoded } from '../kernel/codec/codec.js'
import { type Duration, parseDuration } from '../kernel/duration/duration.js'
import { newId, parseId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import { laterStart } from '../kernel/model/index.js'
import { describe, shown } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { dateOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { unstorableIn } from '../kernel/validation/storable-text.js'
import type { DefinedProcess } from './define.js'
import type { EncodedStart } from './queries/start-processes.js'

type Attributes = Readonly<Record<string, string | number | boolean>>

/** The options of every way to start a process. */
export interface StartDetails {
  readonly id?: string
  /** Your own name for it, unique per definition: a second start returns the first process. */
  readonly key?: string
  /** Not before this moment; then a worker starts it. */
  readonly startAt?: Date | string
  /** How long to wait before a worker starts it. Cannot be combined with `startAt`. */
  readonly delay?: Duration
  /** When it must have ended: a moment, or a time from its start. Default: that of the definition. */
  readonly deadline?: Date | Duration
  /** What to find it by: a flat object of texts, numbers and booleans. */
  readonly attributes?: Attributes
  /** The id of an open batch that it belongs to. */
  readonly batch?: string
}

export interface Lending {
  readonly worker: string
  readonly leaseMs: number
}

interface EncodeOptions {
  readonly codec: Codec
  readonly where: string
  readonly lending?: Lending | undefined
  readonly parent?: { readonly id: string; readonly call: string }
}

/** What the starts of processes and of managers have in common: state and details are checked where they enter, and not again. */
export async function encodeDetails(
  definition: Pick<DefinedProcess, 'name' | 'version' | 'stateSchema' | 'deadline'>,
  input: unknown,
  details: StartDetails,
  { codec, where }: Pick<EncodeOptions, 'codec' | 'where'>,
) {
  const id = details.id === undefined ? newId() : parseId(`${where}: id`, details.id)
  const key = details.key === undefined ? undefined : checkKey(where, details.key)
  const parsed = await parseWith(definition.stateSchema, input, where)
  const state = codec.encode(parsed, { at: 'state' })
  const row = {
    id,
    type: definition.name,
    version: definition.version,
    key,
    token: newId(),
    batch_id: details.batch === undefined ? undefined : parseId(`${where}: batch`, details.batch),
    attributes: checkAttributes(where, 'attributes', details.attributes),
    notes: state.notes,
    ...deadlineOf(where, details.deadline ?? definition.deadline?.(parsed)),
  }
  return { id, key, state, row }
}

export async function encodeStart(
  definition: DefinedProcess,
  input: unknown,
  details: StartDetails,
  { codec, where, lending, parent }: EncodeOptions,
): Promise<EncodedStart & { readonly state: Encoded }> {
  const { id, key, state, row: shared } = await encodeDetails(definition, input, details, { codec, where })
  const row = {
    ...shared,
    model: 'PROCESS_STEP',
    parent_id: parent?.id,
    parent_call: parent?.call,
    ...laterStart(where, details),
    lease_ms: lending?.leaseMs,
    worker: lending?.worker,
  }
  return { id, key, state, json: `${JSON.stringify(row).slice(0, -1)},"state":${state.json}}` }
}

export function deadlineOf(where: string, deadline: unknown): { deadline_ms?: number; deadline_in_ms?: number } {
  if (deadline === undefined) return {}
  if (deadline instanceof Date) return { deadline_ms: dateOption(where, 'deadline', deadline).getTime() }
  return { deadline_in_ms: parseDuration(deadline, `${where}: option \`deadline\``) }
}

export function checkAttributes(where: string, name: string, attributes: unknown): Attributes | undefined {
  if (attributes === undefined) return undefined
  const problem = flatProblem(attributes)
  if (problem !== undefined) throw invalidOption(where, name, problem)
  // What is flat has texts, numbers and booleans only.
  return attributes as Attributes
}

function flatProblem(attributes: unknown): string | undefined {
  if (typeof attributes !== 'object' || attributes === null || Array.isArray(attributes)) {
    return `must be an object, not ${describe(attributes)}`
  }
  for (const [name, value] of Object.entries(attributes)) {
    const fits =
      typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))
    const bad = unstorableIn(name) ?? (typeof value === 'string' ? unstorableIn(value) : undefined)
    if (bad !== undefined) return `\`${shown(name)}\` contains ${bad}, which PostgreSQL cannot hold`
    if (!fits) return `\`${name}\` must be a text, a number or a boolean, not ${describe(value)}`
  }
  return undefined
}
