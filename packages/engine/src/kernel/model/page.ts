import { invalidOption } from '../validation/invalid-option.js'

/** A part of a list, newest first. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /** Where the next page begins: pass it as `cursor` with the same filter. Not there on the last page. */
  readonly cursor?: string
}

/** The last row of a page, by what the list is ordered by: when it was created, and its id. */
export interface Place {
  readonly createdAt: Date
  readonly id: string
}

/**
 * Cuts a page out of what a query found. The query asks for one row more than the page has: that row tells that there is a next page.
 */
export function toPage<Item>(found: readonly Item[], limit: number, placeOf: (item: Item) => Place): Page<Item> {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  if (last === undefined || found.length <= limit) return { items }
  const { createdAt, id } = placeOf(last)
  return { items, cursor: Buffer.from(JSON.stringify([createdAt.getTime(), id])).toString('base64url') }
}

/** Where the page before ended, from the cursor that it came with. */
export function readCursor(where: string, cursor: unknown): Place | undefined {
  if (cursor === undefined) return undefined
  const [time, id] = parse(cursor)
  const createdAt = new Date(typeof time === 'number' ? time : Number.NaN)
  if (typeof id === 'string' && !Number.isNaN(createdAt.getTime())) return { createdAt, id }
  throw invalidOption(where, 'cursor', 'must be the cursor of a page of the same list')
}

function parse(cursor: unknown): readonly unknown[] {
  if (typeof cursor !== 'string') return []
  try {
    const parsed: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}
