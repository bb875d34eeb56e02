import { HoldfastError } from '../errors.js'
import { displayPath, fromPointer, type Keys } from '../validation/json-path.js'
import { builtInTypes } from './built-in-types.js'
import type { CodecType } from './type.js'

/** Which parts are more than JSON: JSON pointer → name of the type. Stored beside the JSON, never inside it. */
export type Notes = Record<string, string>

/** The notes as a tree in the shape of the value: what is inside comes back before what is around it. */
interface NoteTree {
  type?: string
  readonly parts: Map<string, NoteTree>
}

/**
 * Brings back the types that the notes name. Copies only what lies on the way to a note; the JSON given is not changed.
 * A note that leads nowhere is passed over: SQL may have removed the field since, and the JSON is what counts.
 */
export function applyNotes(json: unknown, notes: Notes, types: ReadonlyMap<string, CodecType>): unknown {
  return revive(json, toTree(notes), [], types)
}

function toTree(notes: Notes): NoteTree {
  const root: NoteTree = { parts: new Map() }
  for (const [pointer, type] of Object.entries(notes)) {
    let node = root
    for (const key of fromPointer(pointer)) {
      let part = node.parts.get(key)
      if (part === undefined) {
        part = { parts: new Map() }
        node.parts.set(key, part)
      }
      node = part
    }
    node.type = type
  }
  return root
}

function revive(json: unknown, node: NoteTree, keys: Keys, types: ReadonlyMap<string, CodecType>): unknown {
  const value = node.parts.size === 0 ? json : reviveParts(json, node, keys, types)
  if (node.type === undefined) return value
  const type = types.get(node.type) ?? builtInTypes.get(node.type)
  if (type === undefined) throw undecodable(keys, `no type '${node.type}' is registered`)
  try {
    return type.decode(value)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw undecodable(keys, `as '${node.type}': ${reason}`, cause)
  }
}

function reviveParts(json: unknown, node: NoteTree, keys: Keys, types: ReadonlyMap<string, CodecType>): unknown {
  if (Array.isArray(json)) {
    const copy: unknown[] = json.slice()
    for (const [key, part] of node.parts) {
      const index = Number(key)
      if (index in copy) copy[index] = revive(copy[index], part, [...keys, index], types)
    }
    return copy
  }
  if (typeof json !== 'object' || json === null) return json
  const copy: Record<string, unknown> = { ...json }
  for (const [key, part] of node.parts) {
    // Own keys only: a note on `/__proto__` or `/constructor` must not reach what every object inherits.
    if (Object.hasOwn(copy, key)) copy[key] = revive(copy[key], part, [...keys, key], types)
  }
  return copy
}

function undecodable(keys: Keys, problem: string, cause?: unknown): HoldfastError {
  const path = displayPath('$', keys)
  return new HoldfastError('HF_NOT_DECODABLE', { path, problem }, cause === undefined ? undefined : { cause })
}
