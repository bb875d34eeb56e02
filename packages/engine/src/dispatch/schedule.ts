import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import {
  type Batcher,
  checkMany,
  chunksOf,
  createBatcher,
  type Database,
  type Executor,
  GIVE_UP_AFTER,
  isList,
  type Logger,
  type Metrics,
  type Queryable,
  workOf,
} from '../kernel/model/index.js'
import { anything, boolean, date, declareOptions, required, text } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { parseWith } from '../kernel/validation/schema.js'
import { deadlineOf } from '../processes/index.js'
import { type DefinedDispatch, type DispatchDefinition, definedDispatch } from './define.js'
import { ScheduledItem } from './item-handle.js'
import { checkItemKey, type ItemCalls } from './items.js'
import { noteDispatch } from './queries/note-dispatch.js'
import {
  type Accepted,
  flushScheduleStatement,
  type Met,
  type ScheduleRequest,
  scheduleItems,
} from './queries/schedule-items.js'
import { unknownDefinition } from './reference.js'

/** An item to be executed later. */
export interface ItemToSchedule<Input> {
  /** Your own name for it, unique per definition: scheduling it again changes nothing. At most 200 characters. */
  readonly key: string
  /** The input of its execution: the state of the process, the input of the workflow, or the context for the target. */
  readonly context: Input
  /** When it is to be executed. A time in the past is due at once. */
  readonly startAt: Date | string
  /** The workflow or process that scheduled it, for the record. */
  readonly initWorkflowId?: string
}

export interface ScheduleOptions {
  /** Your own transaction: the item is scheduled if it commits. */
  readonly transaction?: Queryable
  /** Replaces time and context of an existing item, if it is still READY. */
  readonly replace?: boolean
}

/** For a list: how many items are new, how many existed already, how many of those were replaced. */
export interface Scheduled {
  readonly created: number
  readonly existing: number
  readonly replaced: number
}

export interface Scheduling {
  /**
   * Schedules an item, or all or none of a list. A list returns counts, a single item its handle.
   *
   * @example
   * const payment = await hf.schedule(Settlement, { key: 'PAY-1', context: { cents: 500 }, startAt: fourOClock })
   * await payment.result({ timeout: '1h' })
   */
  schedule<Input, Result>(
    definition: DispatchDefinition<Input, Result>,
    item: ItemToSchedule<NoInfer<Input>>,
    options?: ScheduleOptions,
  ): Promise<ScheduledItem<Input, Result>>
  schedule<Input>(
    definition: DispatchDefinition<Input>,
    items: readonly ItemToSchedule<NoInfer<Input>>[],
    options?: ScheduleOptions,
  ): Promise<Scheduled>
  readonly close: () => Promise<void>
}

interface Parts {
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly items: ItemCalls
}

interface EncodedItem extends Omit<ScheduleRequest, 'rows'> {
  readonly key: string
  readonly row: string
}

/** A statement of so many items keeps the database busy for a tenth of a second. */
const CHUNK = 5_000
const LATEST_YEAR = 9_999

export function createScheduling(db: Database, { codec, logger, metrics, items: calls }: Parts): Scheduling {
  const noted = new Map<string, Promise<void>>()
  const singles: Batcher<EncodedItem, Met> = createBatcher<EncodedItem, Met>({
    name: 'dispatch.schedule',
    key: ({ type, key }) => `${type} ${key}`,
    flush: async (items) => (await flushSingles(db, items)).map((done) => ({ done })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  /** The settings are stored before the first item, and not in the caller's transaction, which may fail. */
  async function known(definition: DefinedDispatch): Promise<void> {
    const { name } = definition
    let noting = noted.get(name)
    if (!noting) {
      noting = noteDispatch(db, definition)
      noted.set(name, noting)
      noting.catch(() => noted.delete(name))
    }
    await noting
  }

  /** Schedules all or none. */
  async function attempt(
    dispatch: DefinedDispatch,
    encoded: readonly EncodedItem[],
    transaction: Queryable | undefined,
  ): Promise<readonly Accepted[] | 'unknown type'> {
    const [first] = encoded
    if (!first) return []
    if (encoded.length === 1 && transaction === undefined) {
      const met = await singles.write(first)
      return met === 'unknown type' ? met : [refuseConflict(dispatch, first.key, met)]
    }
    const all = async (executor: Executor) => {
      const found: Accepted[] = []
      for (const chunk of chunksOf(encoded, CHUNK)) {
        const rows = chunk.map(({ row }) => row)
        const { others, unknown } = await scheduleItems(executor, { ...first, rows })
        if (unknown) return 'unknown type'
        for (const [place, { key }] of chunk.entries()) {
          found.push(refuseConflict(dispatch, key, others.get(place) ?? 'created'))
        }
      }
      return found
    }
    return transaction === undefined ? db.transaction(all, { retry: true }) : all(db.inside(transaction))
  }

  async function encodeAll(
    definition: DefinedDispatch,
    items: readonly ItemToSchedule<unknown>[],
    replace: boolean,
  ): Promise<EncodedItem[]> {
    const { name: type, version } = definition
    const encoded: EncodedItem[] = []
    for (const [place, item] of items.entries()) {
      const where = items.length === 1 ? `schedule ${type}` : `schedule ${type}: items[${place}]`
      const given = checkItem(where, item)
      encoded.push({ type, version, replace, key: given.key, row: await encodeRow(definition, given, where, codec) })
    }
    return encoded
  }

  async function scheduleAll(
    dispatch: DefinedDispatch,
    items: readonly ItemToSchedule<unknown>[],
    options: ScheduleOptions,
  ): Promise<readonly Accepted[]> {
    const where = `schedule ${dispatch.name}`
    const { replace } = checkScheduleOptions(where, options)
    const encoded = await encodeAll(dispatch, items, replace)
    await known(dispatch)
    const found = await attempt(dispatch, encoded, options.transaction)
    if (found !== 'unknown type') return found
    // The database was restored to an earlier state: the program registers the type again.
    noted.delete(dispatch.name)
    await known(dispatch)
    const again = await attempt(dispatch, encoded, options.transaction)
    if (again === 'unknown type') throw unknownDefinition(dispatch.name)
    return again
  }

  return {
    schedule: (async (
      definition: DispatchDefinition,
      given: ItemToSchedule<unknown> | readonly ItemToSchedule<unknown>[],
      options: ScheduleOptions = {},
    ) => {
      const dispatch = checkDefinition(definition)
      if (isList(given)) {
        checkMany(`schedule ${dispatch.name}`, 'items', given)
        return countOf(await scheduleAll(dispatch, given, options))
      }
      const [met = 'same'] = await scheduleAll(dispatch, [given], options)
      return new ScheduledItem(calls, dispatch, given.key, met)
    }) as Scheduling['schedule'],
    close: () => singles.close(GIVE_UP_AFTER),
  }
}

const checkScheduleOptions = declareOptions({ transaction: anything, replace: boolean({ default: false }) })
const checkItem = declareOptions({
  key: (where, _name, value) => checkItemKey(where, value),
  context: anything,
  startAt: required(date),
  initWorkflowId: text({ max: 512 }),
})

async function encodeRow(
  definition: DefinedDispatch,
  { key, context, startAt, initWorkflowId: init }: ReturnType<typeof checkItem>,
  where: string,
  codec: Codec,
): Promise<string> {
  const year = startAt.getUTCFullYear()
  if (year < 1 || year > LATEST_YEAR) {
    throw invalidOption(where, 'startAt', `must lie in the years 1 to ${LATEST_YEAR}, not ${year}`)
  }
  const parsed = await parseWith(definition.contextSchema, context, where)
  const { json, notes } = codec.encode(parsed, { at: 'context' })
  const deadline = deadlineOf(where, definition.deadline?.(parsed))
  const details = Object.keys(deadline).length === 0 ? null : deadline
  return `[${JSON.stringify(key)},${startAt.getTime()},${json},${JSON.stringify(notes)},${JSON.stringify(init ?? null)},${JSON.stringify(details)}]`
}

/** One statement per item type (and version, and way of replacing): nearly always one. */
async function flushSingles(db: Executor, items: readonly EncodedItem[]): Promise<Met[]> {
  const groups = new Map<string, { readonly request: Omit<ScheduleRequest, 'rows'>; readonly places: number[] }>()
  for (const [place, { type, version, replace }] of items.entries()) {
    const name = `${type} ${version} ${replace}`
    const group = groups.get(name) ?? { request: { type, version, replace }, places: [] }
    group.places.push(place)
    groups.set(name, group)
  }
  const found = items.map((): Met => 'created')
  for (const { request, places } of groups.values()) {
    const rows = places.flatMap((place) => items[place]?.row ?? [])
    const { others, unknown } = await scheduleItems(db, { ...request, rows }, flushScheduleStatement)
    for (const [nth, place] of places.entries()) {
      found[place] = unknown ? 'unknown type' : (others.get(nth) ?? 'created')
    }
  }
  return found
}

function countOf(found: readonly Accepted[]): Scheduled {
  const count = (what: string) => found.filter((one) => one === what).length
  return { created: count('created'), existing: count('same') + count('replaced'), replaced: count('replaced') }
}

function refuseConflict({ name }: DefinedDispatch, key: string, met: Met): Accepted {
  if (met === 'created' || met === 'same' || met === 'replaced') return met
  throw new HoldfastError('HF_ITEM_CONFLICT', { ...workOf('dispatch', name, key), problem: conflictOf(met) })
}

function conflictOf(met: Met): string {
  if (met === 'other time') return 'is scheduled for another time already'
  if (met === 'other context') return 'is scheduled with another context already'
  return `is ${met} and cannot be replaced any more`
}

function checkDefinition(definition: unknown): DefinedDispatch {
  const defined = definedDispatch(definition)
  if (defined) return defined
  throw invalidOption('dispatch', 'definition', 'must be made with defineDispatch')
}
