import { type Database, listFilter, type Page, type Place, page, toPage, uuid } from '../kernel/model/index.js'
import { choice, declareOptions, timeSpan } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { type DispatchItem, type ItemFilter, listItems } from './queries/find-items.js'
import { type DispatchStatus, dispatchStatuses } from './states.js'

export interface ItemCountFilter {
  readonly domain?: string
  readonly type?: string
  readonly status?: DispatchStatus
  readonly key?: string
  /** The batch in which they were released. */
  readonly batch?: string
  /** By the time at which they are to start: from this moment on, and before that one. */
  readonly startAt?: { readonly from?: Date | string; readonly until?: Date | string }
  /** Scheduled from this moment on. */
  readonly since?: Date | string
  /** Scheduled before this moment. */
  readonly until?: Date | string
}

export interface ItemListFilter extends ItemCountFilter {
  /** Where the page before ended. */
  readonly cursor?: string
  /** How many items a page has at most. Default: 100. */
  readonly limit?: number
}

const filters = { ...listFilter, status: choice(dispatchStatuses), batch: uuid, startAt: timeSpan }
const checkList = declareOptions({ ...filters, ...page })
const checkCount = declareOptions(filters)

export async function pageOfItems(db: Database, filter?: ItemListFilter): Promise<Page<DispatchItem>> {
  const where = 'dispatch.list'
  const { cursor, limit, startAt, ...which } = checkList(where, filter)
  const found = await listItems(
    db,
    { ...which, startFrom: startAt.from, startUntil: startAt.until },
    checkPlace(where, cursor),
    limit + 1,
  )
  const page = toPage(found, limit, ({ item, place }) => ({ createdAt: item.createdAt, id: place }))
  return { ...page, items: page.items.map(({ item }) => item) }
}

export function checkItemFilter(where: string, filter: unknown): ItemFilter {
  const { startAt, ...which } = checkCount(where, filter)
  return { ...which, startFrom: startAt.from, startUntil: startAt.until }
}

/** A place in the list is the moment of scheduling to the microsecond, which a Date does not hold, and the number of the item. */
function checkPlace(where: string, place: Place | undefined): readonly [microseconds: string, seq: string] | undefined {
  if (place === undefined) return undefined
  const [, microseconds, seq] = /^(\d{1,18}):(\d{1,18})$/.exec(place.id) ?? []
  if (microseconds !== undefined && seq !== undefined) return [microseconds, seq]
  throw invalidOption(where, 'cursor', 'must be the cursor of a page of the same list')
}
