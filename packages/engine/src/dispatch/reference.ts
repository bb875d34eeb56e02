import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/** Which item type: its definition, or its name where the code is elsewhere. */
export type DispatchOf = { readonly itemType: string } | string

export function itemTypeOf(where: string, dispatch: DispatchOf): string {
  const itemType: unknown = typeof dispatch === 'object' && dispatch !== null ? dispatch.itemType : dispatch
  if (typeof itemType === 'string' && itemType !== '') return itemType
  throw invalidOption(where, 'dispatch', `must be an item type or its definition, not ${describe(dispatch)}`)
}
