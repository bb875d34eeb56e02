import type { Codec } from '../kernel/codec/codec.js'
import { parseWith } from '../kernel/validation/schema.js'
import { deadlineOf } from '../processes/index.js'
import type { DefinedDispatch } from './define.js'
import type { ItemChange } from './queries/operate-items.js'

/**
 * Another context for items that are scheduled already. Without the definition at hand it is checked by the worker that
 * executes it, as one that came through SQL.
 */
export async function encodeContext(
  definition: DefinedDispatch | undefined,
  context: unknown,
  where: string,
  codec: Codec,
): Promise<ItemChange> {
  const parsed = definition ? await parseWith(definition.contextSchema, context, where) : context
  const { json, notes } = codec.encode(parsed, { at: 'context' })
  const encoded = { context: JSON.parse(json) as unknown, version: definition?.version ?? 1 }
  if (!definition) return { ...encoded, notes: null, checked: false, details: null }
  const deadline = deadlineOf(where, definition.deadline?.(parsed))
  return { ...encoded, notes, checked: true, details: Object.keys(deadline).length === 0 ? null : deadline }
}
