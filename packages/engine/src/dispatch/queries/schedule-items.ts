import type { Executor } from '../../kernel/model/index.js'
import type { DispatchStatus } from '../states.js'

/**
 * The result for an item: it is new, the same as before, replaced, or why it is refused. `unknown type`: nothing was
 * scheduled, because the type that the program registered is gone.
 */
export type Met = 'unknown type' | Accepted | 'other time' | 'other context' | DispatchStatus

export type Accepted = 'created' | 'same' | 'replaced'

export interface ScheduleAnswer {
  readonly created: number
  /** Nothing was scheduled: the database does not know the item type (any more). */
  readonly unknown: boolean
  /** Those that existed already, by their place. */
  readonly others: ReadonlyMap<number, Met>
}

/** Which items go together in one statement. */
export interface ScheduleRequest {
  readonly type: string
  readonly version: number
  readonly replace: boolean
  /** Items as `[key, start, context, notes, init workflow, details]` in JSON. */
  readonly rows: readonly string[]
}

export async function scheduleItems(
  executor: Executor,
  { type, version, replace, rows }: ScheduleRequest,
  statement = scheduleStatement,
): Promise<ScheduleAnswer> {
  const head = JSON.stringify({ type, version, replace, checked: true, noted: true })
  const [row] = await executor.run<{ answer: { created: number; unknown?: boolean; others?: [number, Met][] | null } }>(
    statement,
    [`${head.slice(0, -1)},"items":[${rows.join(',')}]}`],
  )
  const { created = 0, unknown = false } = row?.answer ?? {}
  return { created, unknown, others: new Map(row?.answer.others ?? []) }
}

const scheduleStatement = {
  name: 'dispatch.schedule',
  text: 'select holdfast.schedule_items($1::text::jsonb) as answer',
}

export const flushScheduleStatement = {
  name: 'dispatch.flush-schedule',
  text: 'select holdfast.flush_schedule($1::text::jsonb) as answer',
}
