import type { Executor } from '../../kernel/database/executor.js'
import type { DispatchStatus } from '../states.js'

/** What became of an item: it is new, the same as before, replaced, or why it is refused. */
export type Met = 'created' | 'same' | 'replaced' | 'other time' | 'other context' | DispatchStatus

export interface ScheduleAnswer {
  readonly created: number
  /** Those that were there already, by their place. */
  readonly others: ReadonlyMap<number, Met>
}

/** Which items go together in one statement. */
export interface ScheduleRequest {
  readonly type: string
  readonly version: number
  readonly replace: boolean
  /** Items as `[id, exec time, context, notes, init workflow, details]` in JSON. */
  readonly rows: readonly string[]
}

export async function scheduleItems(
  executor: Executor,
  { type, version, replace, rows }: ScheduleRequest,
  statement = scheduleStatement,
): Promise<ScheduleAnswer> {
  const head = JSON.stringify({ type, version, replace, checked: true })
  const [row] = await executor.run<{ answer: { created: number; others?: [number, Met][] | null } }>(statement, [
    `${head.slice(0, -1)},"items":[${rows.join(',')}]}`,
  ])
  return { created: row?.answer.created ?? 0, others: new Map(row?.answer.others ?? []) }
}

const scheduleStatement = {
  name: 'dispatch.schedule',
  text: 'select holdfast.schedule_items($1::text::jsonb) as answer',
}

export const flushScheduleStatement = {
  name: 'dispatch.flush-schedule',
  text: 'select holdfast.flush_schedule($1::text::jsonb) as answer',
}
