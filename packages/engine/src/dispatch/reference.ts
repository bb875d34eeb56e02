import { HoldfastError } from '../kernel/errors.js'
import { splitName } from '../kernel/ids/name.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/** Which type of items: its definition, or its names where the code is elsewhere (`{ domain, type }` or `domain/type`). */
export type DispatchOf = { readonly domain: string; readonly type: string } | string

/** `domain/type`: what the tables call an item type. */
export function itemTypeOf(where: string, dispatch: DispatchOf): string {
  const itemType = typeof dispatch === 'object' && dispatch !== null ? `${dispatch.domain}/${dispatch.type}` : dispatch
  if (typeof itemType === 'string' && /^[^/]+\/[^/]+$/.test(itemType)) return itemType
  throw invalidOption(
    where,
    'dispatch',
    `must be a definition, { domain, type } or 'domain/type', not ${describe(dispatch)}`,
  )
}

/** No program has registered it and nothing was scheduled with it. */
export function unknownDefinition(itemType: string): HoldfastError<'HF_UNKNOWN_DEFINITION'> {
  return new HoldfastError('HF_UNKNOWN_DEFINITION', { model: 'dispatch', ...splitName(itemType) })
}
