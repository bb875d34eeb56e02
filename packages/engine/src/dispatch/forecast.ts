/** Items that fall due in one minute. */
export interface DueMinute {
  readonly at: Date
  readonly count: number
}

export interface Forecast {
  /** When the last of them will have been released; undefined if never, or if it is not known. */
  readonly finishesAt: Date | undefined
  /** The longest that an item waits beyond its time, in milliseconds. */
  readonly latestBy: number
  /** How many will still wait at the end of each minute. */
  readonly backlog: readonly { readonly at: Date; readonly waiting: number }[]
}

const MINUTE = 60_000

/**
 * When items that fall due like this will have been released at this rate: they queue while more are due than are released.
 * A rate of infinity releases each minute's items within it.
 *
 * @example
 * forecast([{ at: fourOClock, count: 1_000_000 }], { perSecond: 100, now: new Date() }).finishesAt
 */
export function forecast(
  due: readonly DueMinute[],
  { perSecond, now }: { readonly perSecond: number; readonly now: Date },
): Forecast {
  if (perSecond <= 0) return { finishesAt: undefined, latestBy: Number.POSITIVE_INFINITY, backlog: [] }
  const backlog: { at: Date; waiting: number }[] = []
  let freeAt = now.getTime()
  let latestBy = 0
  for (const { at, count } of due) {
    const beginsAt = Math.max(freeAt, at.getTime())
    freeAt = beginsAt + (count / perSecond) * 1_000
    if (count > 0) latestBy = Math.max(latestBy, freeAt - Math.max(at.getTime(), now.getTime()))
    const endOfMinute = Math.max(at.getTime() + MINUTE, now.getTime())
    backlog.push({ at, waiting: Math.max(0, Math.round(((freeAt - endOfMinute) / 1_000) * perSecond)) })
  }
  const any = due.some(({ count }) => count > 0)
  return { finishesAt: any ? new Date(Math.ceil(freeAt)) : undefined, latestBy: Math.ceil(latestBy), backlog }
}

/** How many items a configuration releases per second; infinity if nothing but the machine limits it. */
export function ratePerSecond(config: {
  readonly batchSize: number
  readonly dispatchInterval: number
  readonly limitPerSecond: number | null
}): number {
  const { batchSize, dispatchInterval, limitPerSecond } = config
  const byCycles = dispatchInterval === 0 ? Number.POSITIVE_INFINITY : (batchSize / dispatchInterval) * 1_000
  return Math.min(byCycles, limitPerSecond ?? Number.POSITIVE_INFINITY)
}
