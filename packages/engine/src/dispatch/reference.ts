import { HoldfastError } from '../kernel/errors.js'
import { describe } from '../kernel/validation/describe.js'

/** Which item type: its definition, or its name where the code is elsewhere. */
export type DispatchOf = { readonly itemType: string } | string

export function itemTypeOf(where: string, dispatch: DispatchOf): string {
  const itemType: unknown = typeof dispatch === 'object' && dispatch !== null ? dispatch.itemType : dispatch
  if (typeof itemType === 'string' && itemType !== '') return itemType
  const problem = `must be an item type or its definition, not ${describe(dispatch)}`
  throw new HoldfastError('HF_INVALID_OPTION', { where, option: 'dispatch', problem })
}
