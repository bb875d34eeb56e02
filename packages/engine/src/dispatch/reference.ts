import { HoldfastError } from '../kernel/errors.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/** Which item type: its definition, or its name where the code is elsewhere. */
export type DispatchOf = { readonly itemType: string } | string

export function itemTypeOf(where: string, dispatch: DispatchOf): string {
  const itemType: unknown = typeof dispatch === 'object' && dispatch !== null ? dispatch.itemType : dispatch
  if (typeof itemType === 'string' && itemType !== '') return itemType
  throw invalidOption(where, 'dispatch', `must be an item type or its definition, not ${describe(dispatch)}`)
}

/** An item as the details of errors name it. */
export function subjectOf(itemType: string, key: string) {
  const slash = itemType.indexOf('/')
  const domain = slash < 0 ? 'default' : itemType.slice(0, slash)
  return { model: 'dispatch', domain, type: itemType.slice(slash + 1), id: key } as const
}

export function notFound(itemType: string, key: string): HoldfastError<'HF_NOT_FOUND'> {
  return new HoldfastError('HF_NOT_FOUND', subjectOf(itemType, key))
}
