/** A fault point and how often it has been passed by then: `before processes.write`, for the second time. */
export interface KillPoint {
  readonly point: string
  readonly time: number
}

/** Every fault point, or those of statements that record something: before and after each step is on record. */
export type KillAt = 'every-step' | 'every-statement'

/** A statement that is repeated as often as time allows gets two kills. */
const POLLS = 2

/**
 * The points at which to kill, from those that a run has passed. A point that an idle worker passes too is a poll, whatever
 * model it is of: it records nothing.
 */
export function killPointsOf(passed: readonly string[], polls: ReadonlySet<string>, killAt: KillAt): KillPoint[] {
  const counts = new Map<string, number>()
  const found: KillPoint[] = []
  for (const point of passed) {
    const time = (counts.get(point) ?? 0) + 1
    counts.set(point, time)
    if (isKits(point)) continue
    if (polls.has(point) ? killAt === 'every-statement' && time <= POLLS : true) found.push({ point, time })
  }
  return found
}

/** The given number of them, from the first to the last, evenly spread. */
export function spread<T>(all: readonly T[], most = all.length): readonly T[] {
  if (most >= all.length) return all
  const step = most > 1 ? (all.length - 1) / (most - 1) : 0
  return Array.from({ length: most }, (_, place) => Math.round(place * step)).flatMap((place) =>
    all.slice(place, place + 1),
  )
}

/** Statements of the kit itself. */
const isKits = (point: string) => / clock\./.test(point)

/**
 * One run of a crash test: in which order the responses come (0: as given), where the worker is killed, and whether the
 * execution is cancelled before another worker continues it.
 */
export interface RunSeed {
  readonly order: number
  readonly kill: KillPoint | undefined
  readonly cancels?: boolean
}

/** As it is printed, and given to `seed`: `3`, `3:before processes.write#2` or `3:before processes.write#2 then cancel`. */
export function formatSeed({ order, kill, cancels }: RunSeed): string {
  return kill ? `${order}:${formatPoint(kill)}${cancels ? ' then cancel' : ''}` : `${order}`
}

export const formatPoint = ({ point, time }: KillPoint) => `${point}#${time}`

export function parseSeed(text: string): RunSeed {
  const [, order, point, time, cancels] = /^(\d+)(?::((?:before|after) .+)#(\d+)( then cancel)?)?$/.exec(text) ?? []
  if (order === undefined) {
    throw new RangeError(`crashTest: ${JSON.stringify(text)} is no seed; take the one that a failing run has printed`)
  }
  const kill = point === undefined ? undefined : { point, time: Number(time) }
  return { order: Number(order), kill, ...(cancels === undefined ? {} : { cancels: true }) }
}

export function describeKill({ kill, cancels }: RunSeed): string {
  if (!kill) return 'without any kill'
  const times = kill.time === 1 ? '' : `, passed for the ${kill.time}. time`
  return `when its worker is killed ${kill.point}${times}${cancels ? ', and it is cancelled then' : ''}`
}
