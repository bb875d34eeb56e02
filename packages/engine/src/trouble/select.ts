import { HoldfastError } from '../kernel/errors.js'
import { isId, parseId } from '../kernel/ids/id.js'
import { type BulkResult, type Database, models, withDatabaseRetry } from '../kernel/model/index.js'
import { createBackoff } from '../kernel/retry/backoff.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { choiceOption, textOption } from '../kernel/validation/options.js'
import { type CheckedFilter, ConditionBuilder, checkFilter, failureOption, type TroubleFilter } from './filter.js'
import { findKeys, placeOf, type Trouble, type TroubleGroup, type TroubleKey } from './queries/find-trouble.js'

/** Enough of a record to act on it. */
export type TroubleReference = Pick<Trouble, 'model' | 'domain' | 'type' | 'id' | 'step' | 'failureId'>

/**
 * Which troubles: a list of ids, of records of `list` or of results of an earlier call, a group of `groups`, a filter, or `'all'`. A
 * filter and a group may have a `limit`: it then selects the newest ones. Records, results and groups mean the failures that they are
 * about; ids, filters and `'all'` mean what needs a person when the call begins.
 */
export type WhichTroubles =
  | readonly (string | TroubleReference | BulkResult)[]
  | (TroubleGroup & { readonly limit?: number })
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
 * Finds what an operator means, all of it before anything is done: so a database that goes away while it is read has changed nothing,
 * and what fails again while the call acts is not selected a second time.
 */
export async function selectTroubles(db: Database, where: string, which: unknown): Promise<Selection> {
  if (!Array.isArray(which)) return { found: await byFilter(db, where, which), missing: [] }
  const asked = which.map((one) => (typeof one === 'string' ? textOption(where, 'which', one) : reference(where, one)))
  const ids = asked.filter((one) => typeof one === 'string').map((id) => (isId(id) ? id.toLowerCase() : id))
  const named = await byIds(db, where, [...new Set(ids)])
  const records = asked.filter((one) => typeof one === 'object')
  return { found: distinct([...records, ...named.found]), missing: named.missing }
}

async function byFilter(db: Database, where: string, which: unknown): Promise<readonly TroubleKey[]> {
  const { conditions, limit } = conditionsOf(where, which)
  const found: TroubleKey[] = []
  while (found.length < limit) {
    const most = Math.min(limit - found.length, PAGE)
    const page = await read(where, () => findKeys(db, after(conditions, found.at(-1)), most))
    found.push(...page)
    if (page.length < most) break
  }
  return found
}

/** Reading is repeated while the database is in trouble, for as long as a person waits for an answer. */
const read = <Row>(where: string, operation: () => Promise<Row[]>): Promise<Row[]> =>
  withDatabaseRetry(operation, {
    name: where,
    idempotent: true,
    giveUpAfter: 4_000,
    backoff: createBackoff({ base: 50, cap: 500 }),
  })

function after(
  conditions: { readonly text: string; readonly params: readonly unknown[] },
  last: TroubleKey | undefined,
) {
  if (!last) return conditions
  const builder = new ConditionBuilder(conditions)
  builder.addPlace(placeOf(last))
  return builder
}

async function byIds(db: Database, where: string, ids: readonly string[]): Promise<Selection> {
  const byId = grouped(await readByIds(db, where, ids), ({ id }) => id)
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

async function readByIds(db: Database, where: string, ids: readonly string[]): Promise<TroubleKey[]> {
  const keys: TroubleKey[] = []
  for (let from = 0; from < ids.length; from += PAGE) {
    const builder = new ConditionBuilder()
    builder.addIds(ids.slice(from, from + PAGE))
    keys.push(...(await read(where, () => findKeys(db, builder, ALL))))
  }
  return keys
}

/** The same as keys, for what must be known of them besides: records do not have it. */
export async function keysOf(
  db: Database,
  where: string,
  references: readonly TroubleReference[],
): Promise<TroubleKey[]> {
  const ids = references.map(({ id }) => id)
  const wanted = new Set(references.map(identityOf))
  return (await readByIds(db, where, [...new Set(ids)])).filter((key) => wanted.has(identityOf(key)))
}

export const identityOf = ({ model, domain, type, id, step, failureId }: TroubleReference): string =>
  JSON.stringify([model, domain, type, id, step, failureId])

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

function conditionsOf(where: string, which: unknown): CheckedFilter {
  const limit = Number.MAX_SAFE_INTEGER
  if (which === 'all') return checkFilter(where, {}, { limit })
  if (typeof which !== 'object' || which === null) throw notChosen(where, `must not be ${describe(which)}`)
  if ('sample' in which) return checkGroup(where, which, limit)
  const checked = checkFilter(where, which, { limit })
  if (checked.isEmpty) throw notChosen(where, 'must not be an empty filter')
  return checked
}

/** What a group counted: what fitted its filter and failed no later than its last. What else it has is checked like a filter. */
function checkGroup(where: string, group: object, limit: number): CheckedFilter {
  const {
    filter,
    sample,
    count: _count,
    firstSeen: _first,
    lastSeen: _last,
    ...alike
  } = group as Partial<Record<keyof TroubleGroup, unknown>>
  if (filter === undefined) throw invalidOption(where, 'filter', 'must be there: a group of hf.trouble.groups has one')
  const { failureId } = Object(sample) as { readonly failureId?: unknown }
  const within = new ConditionBuilder(checkFilter(where, filter).conditions)
  within.addUpTo(failureOption(where, failureId))
  return checkFilter(where, alike, { limit, within })
}

function reference(where: string, given: unknown): TroubleReference {
  if (typeof given !== 'object' || given === null)
    throw notChosen(where, `must not have ${describe(given)} in its list`)
  const { domain, type, id, step, failureId, ...more } = given as Partial<Record<string, unknown>>
  const model = choiceOption(where, 'model', more.model, models)
  return {
    model,
    domain: textOption(where, 'domain', domain),
    type: textOption(where, 'type', type),
    id: model === 'dispatch' ? textOption(where, 'id', id) : parseId(`${where}: id`, id),
    step: typeof step === 'string' ? textOption<string>(where, 'step', step) : null,
    failureId: failureOption(where, failureId),
  }
}

function notChosen(where: string, problem: string): HoldfastError<'HF_INVALID_OPTION'> {
  const choices = "a list of ids or records, a group, a filter with at least one condition, or 'all'"
  return invalidOption(where, 'which', `${problem}; it is ${choices}`)
}
