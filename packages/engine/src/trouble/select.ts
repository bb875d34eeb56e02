import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import { isId } from '../kernel/ids/id.js'
import { models } from '../kernel/model/handle.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { choiceOption, textOption } from '../kernel/validation/options.js'
import { ConditionBuilder, checkFilter, type TroubleFilter } from './filter.js'
import { findKeys, placeOf, type Trouble, type TroubleGroup, type TroubleKey } from './queries/find-trouble.js'

/** Enough of a record to act on it. */
export type TroubleReference = Pick<Trouble, 'model' | 'domain' | 'type' | 'id' | 'step'>

/**
 * Which troubles: a list of ids or of records of `list`, a group of `groups`, a filter, or `'all'`. A filter may have a
 * `limit`: it then selects the newest ones.
 */
export type WhichTroubles =
  | readonly (string | TroubleReference)[]
  | TroubleGroup
  | (TroubleFilter & { readonly limit?: number })
  | 'all'

/** What was selected, and what an id did not name. */
export interface Selection {
  readonly found: readonly TroubleReference[]
  readonly missing: readonly { readonly id: string; readonly error: HoldfastError }[]
}

/** How many are selected at once. */
const PAGE = 1_000
/** Without a limit. */
const ALL = 2 ** 31 - 1

/**
 * Finds the selected troubles, page by page. Work that fails again during the call is not selected a second time: only work that
 * needed a person when the call began.
 */
export async function* selectTroubles(db: Database, where: string, which: unknown): AsyncGenerator<Selection> {
  if (Array.isArray(which)) {
    const asked = which.map((one) =>
      typeof one === 'string' ? textOption(where, 'which', one) : reference(where, one),
    )
    const [ids, records] = [
      asked.filter((one) => typeof one === 'string'),
      asked.filter((one) => typeof one === 'object'),
    ]
    if (records.length > 0) yield { found: distinct(records), missing: [] }
    const unique = [...new Set(ids.map((id) => (isId(id) ? id.toLowerCase() : id)))]
    for (let from = 0; from < unique.length; from += PAGE) yield byIds(db, unique.slice(from, from + PAGE))
    return
  }
  yield* byFilter(db, where, which)
}

async function* byFilter(db: Database, where: string, which: unknown): AsyncGenerator<Selection> {
  const given = which === 'all' ? {} : filterOf(where, which)
  const [clock] = await db.run<{ now: Date }>(nowStatement)
  const { conditions, limit, isEmpty } = checkFilter(where, given, {
    limit: Number.MAX_SAFE_INTEGER,
    ...(clock ? { before: new Date(clock.now.getTime() + 1) } : {}),
  })
  if (isEmpty && which !== 'all') throw notChosen(where, 'must not be an empty filter')
  let last: TroubleKey | undefined
  for (let left = limit; left > 0; ) {
    const most = Math.min(left, PAGE)
    const keys = await findKeys(db, after(conditions, last), most)
    if (keys.length > 0) yield { found: keys, missing: [] }
    if (keys.length < most) return
    left -= keys.length
    last = keys.at(-1)
  }
}

function after(
  conditions: { readonly text: string; readonly params: readonly unknown[] },
  last: TroubleKey | undefined,
) {
  if (!last) return conditions
  const builder = new ConditionBuilder(conditions)
  builder.addPlace(placeOf(last))
  return builder
}

async function byIds(db: Database, ids: readonly string[]): Promise<Selection> {
  const keys = await findByIds(db, ids)
  const byId = grouped(keys, ({ id }) => id)
  const found: TroubleKey[] = []
  const missing: { id: string; error: HoldfastError }[] = []
  for (const id of ids) {
    const named = byId.get(id) ?? []
    const owners = new Set(named.map(({ model, domain, type }) => `${model} ${domain}/${type}`))
    if (owners.size === 1) found.push(...named)
    else if (owners.size === 0) missing.push({ id, error: new HoldfastError('HF_UNKNOWN_TROUBLE', { id }) })
    else missing.push({ id, error: new HoldfastError('HF_AMBIGUOUS_TROUBLE', { id, found: [...owners].join(', ') }) })
  }
  return { found, missing }
}

function findByIds(db: Database, ids: readonly string[]): Promise<TroubleKey[]> {
  const builder = new ConditionBuilder()
  builder.addIds(ids)
  return findKeys(db, builder, ALL)
}

/** The same as keys, for what must be known of them besides: records do not have it. */
export async function keysOf(db: Database, references: readonly TroubleReference[]): Promise<TroubleKey[]> {
  const keys = await findByIds(
    db,
    references.map(({ id }) => id),
  )
  const wanted = new Set(references.map(identityOf))
  return keys.filter((key) => wanted.has(identityOf(key)))
}

export const identityOf = ({ model, domain, type, id, step }: TroubleReference): string =>
  JSON.stringify([model, domain, type, id, step])

function distinct(references: readonly TroubleReference[]): TroubleReference[] {
  return [...new Map(references.map((one) => [identityOf(one), one])).values()]
}

export function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

function filterOf(where: string, which: unknown): object {
  if (typeof which !== 'object' || which === null) throw notChosen(where, `must not be ${describe(which)}`)
  if (!('sample' in which)) return which
  const { model, domain, type, step, code, fingerprint } = which as TroubleGroup
  return { model, domain, type, step, code, fingerprint }
}

function reference(where: string, given: unknown): TroubleReference {
  if (typeof given !== 'object' || given === null)
    throw notChosen(where, `must not have ${describe(given)} in its list`)
  const { model, domain, type, id, step } = given as Partial<Record<string, unknown>>
  return {
    model: choiceOption(where, 'model', model, models),
    domain: textOption(where, 'domain', domain),
    type: textOption(where, 'type', type),
    id: textOption(where, 'id', id),
    step: typeof step === 'string' ? textOption<string>(where, 'step', step) : null,
  }
}

function notChosen(where: string, problem: string): HoldfastError<'HF_INVALID_OPTION'> {
  const choices = "a list of ids or records, a group, a filter with at least one condition, or 'all'"
  return invalidOption(where, 'which', `${problem}; it is ${choices}`)
}

const nowStatement = { name: 'trouble.now', text: 'select holdfast.now() as now' }
