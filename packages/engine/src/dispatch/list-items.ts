import type { Database } from '../kernel/database/database.js'
import { parseId } from '../kernel/ids/id.js'
import { type Page, readCursor, toPage } from '../kernel/model/page.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, dateOption, integerOption, textOption } from '../kernel/validation/options.js'
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

const CONDITIONS = ['domain', 'type', 'status', 'key', 'batch', 'startAt', 'since', 'until'] as const

export async function pageOfItems(db: Database, filter: ItemListFilter = {}): Promise<Page<DispatchItem>> {
  const where = 'dispatch.list'
  const { cursor, limit: asked, ...conditions } = checkOptions(where, filter, [...CONDITIONS, 'cursor', 'limit'])
  const limit = integerOption(where, 'limit', asked, { min: 1, max: 1_000, default: 100 })
  const after = checkPlace(where, cursor)
  const found = await listItems(db, checkItemFilter(where, conditions), after, limit + 1)
  const page = toPage(found, limit, ({ item, place }) => ({ createdAt: item.createdAt, id: place }))
  return { ...page, items: page.items.map(({ item }) => item) }
}

export function checkItemFilter(where: string, filter: unknown = {}): ItemFilter {
  const given = checkOptions(where, filter, CONDITIONS)
  const span = checkOptions(`${where}: startAt`, given.startAt, ['from', 'until'])
  const text = (name: 'domain' | 'type' | 'key') => textOption(where, name, given[name], { default: undefined }) ?? null
  const date = (name: string, value: unknown) => dateOption(where, name, value, { default: undefined }) ?? null
  return {
    domain: text('domain'),
    type: text('type'),
    key: text('key'),
    status: choiceOption(where, 'status', given.status, dispatchStatuses, { default: undefined }) ?? null,
    batch: given.batch === undefined ? null : parseId(`${where}: batch`, given.batch),
    startFrom: date('startAt.from', span.from),
    startUntil: date('startAt.until', span.until),
    since: date('since', given.since),
    until: date('until', given.until),
  }
}

/** A place in the list is the moment of scheduling to the microsecond, which a Date does not hold, and the number of the item. */
function checkPlace(where: string, cursor: unknown): readonly [microseconds: string, seq: string] | undefined {
  const place = readCursor(where, cursor)
  if (place === undefined) return undefined
  const [, microseconds, seq] = /^(\d{1,18}):(\d{1,18})$/.exec(place.id) ?? []
  if (microseconds !== undefined && seq !== undefined) return [microseconds, seq]
  throw invalidOption(where, 'cursor', 'must be the cursor of a page of the same list')
}
