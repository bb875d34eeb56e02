import type { Duration } from '../kernel/duration/duration.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, durationOption, numberOption, textOption } from '../kernel/validation/options.js'

/** The settings of a type of items, changed at run time and read by every cycle. */
export interface DispatchSettings {
  /** The kill switch. False: nothing is released, and what our own engine has not begun is held back. Default: true. */
  readonly enabled?: boolean
  /** The most items that a cycle releases. Default: 500. */
  readonly batchSize?: number
  /** From the beginning of one cycle to that of the next. 0: batch after batch while items are due. Default: 5 s. */
  readonly dispatchInterval?: Duration
  /** The starts of a batch are spread over this time, unless a rate limit spreads them. Default: 4 s. */
  readonly jitterWindow?: Duration
  /** How far ahead of their time items may be dispatched. They still start at their time. Default: 0. */
  readonly preStartBuffer?: Duration
  /** How often an item may fail before it is a dead letter. Default: 5. */
  readonly maxDispatchRetries?: number
  /** For remote targets: how long after a start of unknown outcome the target is asked about it. Default: 2 minutes. */
  readonly staleClaimThreshold?: Duration
  /** For remote targets: about how many executions one call of `describe` asks at most. Default: 100. */
  readonly maxStaleRecoveryPerCycle?: number
  /** How many batches our own engine may have been given without having begun them; null: any number. Default: 4. */
  readonly maxBatchesAhead?: number | null
  /**
   * After so many items in a row that could not begin (the target refuses everything, no worker has the definition) the window
   * stops and waits for `resume`. Default: 1,000. null: never.
   */
  readonly tripAfter?: number | null
  /** Start this instead of what the definition says: a process that a worker has registered, or a stored workflow. */
  readonly execWorkflowType?: string | null
  /** For remote targets, which get it as `taskQueue`. */
  readonly execTaskQueue?: string | null
  /** The key of a rate limit (`hf.limits`): a cycle releases as many items as it grants. */
  readonly rateLimitKey?: string | null
}

const settingColumns = {
  enabled: 'enabled',
  batchSize: 'batch_size',
  dispatchInterval: 'dispatch_interval_secs',
  jitterWindow: 'jitter_window_ms',
  preStartBuffer: 'pre_start_buffer_mins',
  maxDispatchRetries: 'max_dispatch_retries',
  staleClaimThreshold: 'stale_claim_threshold_mins',
  maxStaleRecoveryPerCycle: 'max_stale_recovery_per_cycle',
  maxBatchesAhead: 'max_batches_ahead',
  tripAfter: 'trip_after',
  execWorkflowType: 'exec_workflow_type',
  execTaskQueue: 'exec_task_queue',
  rateLimitKey: 'rate_limit_key',
} as const satisfies Record<keyof DispatchSettings, string>

const NAMES = Object.keys(settingColumns) as (keyof DispatchSettings)[]
const WHOLE: readonly string[] = [
  'batchSize',
  'maxDispatchRetries',
  'maxStaleRecoveryPerCycle',
  'maxBatchesAhead',
  'tripAfter',
]
/** Durations: the unit that their columns have, and the least that the table takes, in milliseconds. */
const DURATIONS: Partial<Record<keyof DispatchSettings, { readonly unit: number; readonly min: number }>> = {
  dispatchInterval: { unit: 1_000, min: 0 },
  jitterWindow: { unit: 1, min: 0 },
  preStartBuffer: { unit: 60_000, min: 0 },
  staleClaimThreshold: { unit: 60_000, min: 60 },
}
const TEXTS: readonly string[] = ['execWorkflowType', 'execTaskQueue', 'rateLimitKey']
const NULLABLE: readonly string[] = [...TEXTS, 'maxBatchesAhead', 'tripAfter']
/** The largest `int` of PostgreSQL: the database would refuse more with an error of its own. */
const LARGEST = 2_147_483_647

/** Checks the kinds of values; their ranges are the table's own, and refused by it in a sentence (see `refusedSetting`). */
export function checkSettings(where: string, settings: DispatchSettings): Record<string, unknown> {
  const given = checkOptions(where, settings, NAMES)
  const columns: Record<string, unknown> = {}
  for (const name of NAMES) {
    const value = given[name]
    if (value !== undefined) columns[settingColumns[name]] = checkOne(where, name, value)
  }
  return columns
}

function checkOne(where: string, name: keyof DispatchSettings, value: unknown): unknown {
  if (value === null && NULLABLE.includes(name)) return null
  if (name === 'enabled') return booleanOption(where, name, value)
  if (TEXTS.includes(name)) return textOption(where, name, value, { max: 300 })
  const duration = DURATIONS[name]
  if (duration) return durationOption(where, name, value, { min: duration.min, max: '1d' }) / duration.unit
  const number = numberOption(where, name, value, { min: -LARGEST, max: LARGEST })
  if (WHOLE.includes(name) && !Number.isInteger(number)) {
    throw invalidOption(where, name, `must be a whole number, not ${number}`)
  }
  return number
}

/** The table's refusal of a value, under the name that the API has for it. */
export function refusedSetting(where: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('code' in error) || error.code !== '23514') return error
  const column = 'column' in error ? error.column : undefined
  const option = NAMES.find((name) => settingColumns[name] === column)
  if (option === undefined) return error
  return invalidOption(where, option, error.message.slice(settingColumns[option].length + 1), { cause: error })
}
