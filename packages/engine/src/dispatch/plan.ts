import type { Duration } from '../kernel/duration/duration.js'
import { splitName } from '../kernel/ids/name.js'
import type { Database } from '../kernel/model/index.js'
import { checkOptions, durationOption, integerOption, numberOption } from '../kernel/validation/options.js'
import { type DueMinute, type Forecast, forecast, ratePerSecond } from './forecast.js'
import { readConfig } from './queries/read-config.js'
import { readPlan } from './queries/read-plan.js'
import { type DispatchOf, itemTypeOf, unknownDefinition } from './reference.js'

export interface PlanOptions {
  /** The plan with these settings instead. */
  readonly batchSize?: number
  readonly dispatchInterval?: Duration
  /** The rate of the limit; null: no limit. */
  readonly limitPerSecond?: number | null
  /** How many minutes to list. Default: 1,440. */
  readonly minutes?: number
}

/** How many items are due when, at which rate they are released, and when the last one will be. */
export interface DispatchPlan {
  readonly domain: string
  readonly type: string
  readonly now: Date
  readonly enabled: boolean
  /** Whether the window has stopped by itself and waits for an operator. */
  readonly tripped: boolean
  readonly ready: number
  readonly overdue: number
  readonly due: readonly DueMinute[]
  /** READY items beyond the minutes listed, and when the last one is due: a time years away shows here. */
  readonly later: number
  readonly lastDueAt: Date | null
  readonly rate: {
    /** By batch size, interval and rate limit; infinity where only the machine is the limit. */
    readonly configuredPerSecond: number
    /** In the last minute; null where nothing was released. */
    readonly measuredPerSecond: number | null
  }
  /** Of the minutes listed, at the measured rate while it runs; nothing finishes while it is switched off or has stopped. */
  readonly forecast: Forecast
}

/**
 * Reads the plan, or what it would be under another configuration.
 *
 * @example
 * const { forecast } = await hf.dispatch.plan(Settlement, { batchSize: 2_000 })
 */
export async function planOf(db: Database, dispatch: DispatchOf, options: PlanOptions = {}): Promise<DispatchPlan> {
  const where = 'dispatch.plan'
  const itemType = itemTypeOf(where, dispatch)
  const given = checkOptions(where, options, ['batchSize', 'dispatchInterval', 'limitPerSecond', 'minutes'])
  const minutes = integerOption(where, 'minutes', given.minutes, { min: 1, max: 1_000_000, default: 1_440 })
  const config = await readConfig(db, itemType)
  const facts = await readPlan(db, itemType, minutes)
  if (!config || !facts) throw unknownDefinition(itemType)
  const configuredPerSecond = ratePerSecond({
    batchSize: integerOption(where, 'batchSize', given.batchSize, { min: 1, default: config.batchSize }),
    dispatchInterval: durationOption(where, 'dispatchInterval', given.dispatchInterval, {
      default: config.dispatchInterval,
    }),
    limitPerSecond:
      given.limitPerSecond === null
        ? null
        : (numberOption(where, 'limitPerSecond', given.limitPerSecond, { min: 0, default: undefined }) ??
          facts.limitPerSecond),
  })
  const { now, ready, overdue, due, later, lastDueAt, measuredPerSecond } = facts
  const asked = given.batchSize ?? given.dispatchInterval ?? given.limitPerSecond
  const running = overdue > 0 && asked === undefined && !('limitPerSecond' in given && given.limitPerSecond === null)
  const perSecond =
    config.enabled && !config.tripped ? expectedRate(configuredPerSecond, measuredPerSecond, running) : 0
  return {
    ...splitName(itemType),
    now,
    enabled: config.enabled,
    tripped: config.tripped !== null,
    ready,
    overdue,
    due,
    later,
    lastDueAt,
    rate: { configuredPerSecond, measuredPerSecond },
    forecast: forecast(due, { perSecond, now }),
  }
}

/**
 * While a backlog is being released, what was measured is what it goes at: workers or the target may be slower than the
 * configuration allows. Before that, and for a configuration that is only asked about, the configured rate is all there is.
 */
function expectedRate(configured: number, measured: number | null, running: boolean): number {
  if (measured !== null && (running || !Number.isFinite(configured))) return Math.min(configured, measured)
  return configured
}
