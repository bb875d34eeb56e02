import { isId } from '../kernel/ids/id.js'
import { type Model, models, type Place, readCursor } from '../kernel/model/index.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, dateOption, integerOption, textOption } from '../kernel/validation/options.js'

/** Which work that needs a person: work that matches all given fields. */
export interface TroubleFilter {
  /** One model, or several. Default: all. */
  readonly model?: Model | readonly Model[]
  readonly domain?: string
  readonly type?: string
  /** Of one command, process, workflow instance or item. */
  readonly id?: string
  /** The step that failed; null: no step failed, as with all commands and items. */
  readonly step?: string | null
  /** The code of the error. */
  readonly code?: string
  /** The group of a failure: the same code, and the same message except for names and numbers. */
  readonly fingerprint?: string
  /** To whom it was assigned. */
  readonly assignedTo?: string
  /** Failed at this moment or later. */
  readonly since?: Date | string
  /** Failed before this moment. */
  readonly until?: Date | string
}

export interface TroubleListFilter extends TroubleFilter {
  /** Where the page before ended. */
  readonly cursor?: string
  /** The most to return. Default: 100. */
  readonly limit?: number
}

const TEXTS = ['domain', 'type', 'step', 'code', 'fingerprint'] as const
const NAMES = ['model', 'id', ...TEXTS, 'assignedTo', 'since', 'until'] as const

/** Conditions on `holdfast.trouble`, each with its parameter. Only what is given is there, so that every plan can use its index. */
export interface Conditions {
  readonly text: string
  readonly params: readonly unknown[]
}

export interface CheckedFilter {
  readonly conditions: Conditions
  /** Default: no limit. */
  readonly limit: number
  /** Whether it excludes anything. */
  readonly isEmpty: boolean
}

/** Checks a filter, and turns it into conditions. */
export function checkFilter(
  where: string,
  filter: unknown,
  more: { readonly limit?: number; readonly cursor?: boolean; readonly within?: Conditions } = {},
): CheckedFilter {
  const page = more.limit === undefined ? [] : (['limit'] as const)
  const given = checkOptions(where, filter, [...NAMES, ...page, ...(more.cursor ? (['cursor'] as const) : [])])
  const built = new ConditionBuilder(more.within)
  const chosen = checkModels(where, given.model)
  if (chosen) built.add((it) => `model = any (${it}::text[])`, chosen)
  for (const name of TEXTS) {
    if (name === 'step' && given.step === null) {
      built.addCondition('step is null')
      continue
    }
    const value = textOption(where, name, given[name], { default: undefined })
    if (value !== undefined) built.add((it) => `${name} = ${it}`, value)
  }
  const id = textOption(where, 'id', given.id, { default: undefined })
  if (id !== undefined) built.addIds([id])
  const person = textOption(where, 'assignedTo', given.assignedTo, { default: undefined })
  if (person !== undefined) built.add(assignedTo, person)
  const since = dateOption(where, 'since', given.since, { default: undefined })
  if (since) built.add((it) => `since >= ${it}::timestamptz`, since)
  const until = dateOption(where, 'until', given.until, { default: undefined })
  if (until) built.add((it) => `since < ${it}::timestamptz`, until)
  const isEmpty = built.isEmpty
  if (more.cursor) built.addPlace(readCursor(where, given.cursor))
  return {
    conditions: built,
    limit: integerOption(where, 'limit', given.limit, { min: 1, default: more.limit ?? Number.MAX_SAFE_INTEGER }),
    isEmpty,
  }
}

/** The failure that a record or a group is about. */
export function failureOption(where: string, value: unknown): string {
  if (typeof value === 'string' && /^-?\d{1,18}$/.test(value)) return value
  throw invalidOption(where, 'failureId', `must be that of a record of hf.trouble.list, not ${describe(value)}`)
}

const assignedTo = (it: string) => `
      (model, place, since) in (select model, place, since from holdfast.trouble_assignment where assigned_to = ${it})`

function checkModels(where: string, model: unknown): readonly Model[] | undefined {
  if (model === undefined) return undefined
  const given: readonly unknown[] = Array.isArray(model) ? model : [model]
  if (given.length > 0) return given.map((one) => choiceOption(where, 'model', one ?? null, models))
  throw invalidOption(where, 'model', 'must not be an empty list')
}

/** Adds conditions with their parameters. */
export class ConditionBuilder implements Conditions {
  readonly params: unknown[]
  #parts: string[]

  constructor(begin?: Conditions) {
    this.params = [...(begin?.params ?? [])]
    this.#parts = begin ? [begin.text] : []
  }

  get text(): string {
    return this.#parts.length === 0 ? 'true' : this.#parts.join('\n      and ')
  }

  get isEmpty(): boolean {
    return this.#parts.length === 0
  }

  addCondition(condition: string): void {
    this.#parts.push(condition)
  }

  add(condition: (parameter: string) => string, value: unknown): void {
    this.params.push(value)
    this.#parts.push(condition(`$${this.params.length}`))
  }

  /** Only work with one of these ids: UUIDs in the models that have them, keys of items in dispatch. */
  addIds(ids: readonly string[]): void {
    this.params.push(ids.filter(isId), ids)
    const [uuids, texts] = [this.params.length - 1, this.params.length]
    this.#parts.push(`(work_id = any ($${uuids}::uuid[]) or model = 'dispatch' and id = any ($${texts}::text[]))`)
  }

  /** Only what failed up to this failure. */
  addUpTo(failureId: string): void {
    this.add((it) => `since <= ${momentOf(it)}`, failureId)
  }

  /** Only what comes after a place in the order of lists. */
  addPlace(place: Place | undefined): void {
    if (!place) return
    const space = place.id.indexOf(' ')
    this.params.push(place.id.slice(0, space), place.id.slice(space + 1))
    const [since, last] = [this.params.length - 1, this.params.length]
    this.#parts.push(`(since, place) < (${momentOf(`$${since}`)}, $${last}::text collate "C")`)
  }
}

/** A moment from its microseconds since 1970: a `Date` would lose three digits, and a list the rows of that millisecond. */
const momentOf = (micros: string) =>
  `timestamptz '1970-01-01 00:00:00+00' + ${micros}::float8 * interval '1 microsecond'`
