import { setTimeout as sleep } from 'node:timers/promises'
import type { Duration } from 'holdfast'
import { checkOptions, parseDuration, type Survey, type SurveyedLoop } from 'holdfast/internal'

export interface DrainOptions {
  /** Continues until this returns something true, also when nothing is due: for what your test does meanwhile. */
  readonly until?: () => unknown
  /**
   * Whenever nothing is due, moves the clock to the next due time: retries, timeouts and deadlines of hours pass in
   * milliseconds. A duration limits how much is skipped in total; `true` skips to everything that falls due within the next 24 days.
   */
  readonly skipTime?: boolean | Duration
  /** How long this may really take. Default: 60 s. */
  readonly timeout?: Duration
  /** Stops the worker in order, also while it runs something: as a deployment does. */
  readonly signal?: AbortSignal
}

export interface Drained {
  /** How much time was skipped, in milliseconds. */
  readonly skippedMs: number
}

interface Drainable {
  readonly loops: () => readonly SurveyedLoop[]
  readonly moveClock: (milliseconds: number) => Promise<void>
  /** In how many milliseconds the first scheduled item falls due that dispatch may release; null where there is none. */
  readonly nextItemDueMs: () => Promise<number | null>
}

/** As far ahead as claims can look: their ceiling is an int of milliseconds. */
const FURTHEST = 2 ** 31 - 1
/** In the first round, a claim may have made something due that another loop had polled for already. */
const QUIET_ROUNDS = 2
/** Housekeeping is due for ever: time is not skipped for it. */
const HOUSEKEEPING = 'chores'
/** Its cycles are due for ever too: what matters is whether there is anything to release. */
const DISPATCH = 'dispatch'

/**
 * Waits until the loops are idle: nothing is held, and a full scan that began after that claimed nothing. That
 * is asked of the loops and not of tables, so it holds for every model whose workers are made of the one loop.
 */
export async function untilIdle(
  { loops, moveClock, nextItemDueMs }: Drainable,
  options: DrainOptions = {},
): Promise<Drained> {
  checkOptions('drain', options, ['until', 'skipTime', 'timeout', 'signal'])
  const timeoutMs = parseDuration(options.timeout ?? '60s', 'drain: timeout')
  const deadline = performance.now() + timeoutMs
  const maySkip = skippable(options.skipTime)
  let skippedMs = 0
  let quiet = 0
  let wasIdle = false
  for (;;) {
    if (options.signal?.aborted || (await options.until?.())) return { skippedMs }
    const round = await lookAround(loops(), deadline)
    if (performance.now() > deadline) throw notIdle(timeoutMs, loops(), wasIdle)
    quiet = round.quiet ? quiet + 1 : 0
    wasIdle = quiet >= QUIET_ROUNDS || (wasIdle && loops().every(({ held }) => held === 0))
    if (quiet < QUIET_ROUNDS) {
      if (quiet === 0) await sleep(3)
      continue
    }
    const nextDueMs = await earliestOf(round, nextItemDueMs)
    if (nextDueMs !== null && skippedMs + nextDueMs <= maySkip) {
      // A little more: due times have microseconds.
      await moveClock(nextDueMs + 1)
      skippedMs += nextDueMs + 1
      quiet = 0
    } else if (options.until === undefined) return { skippedMs }
    else await sleep(10)
  }
}

function skippable(skipTime: DrainOptions['skipTime']): number {
  if (skipTime === undefined || skipTime === false) return Number.NEGATIVE_INFINITY
  return skipTime === true ? Number.POSITIVE_INFINITY : parseDuration(skipTime, 'drain: skipTime')
}

interface Round {
  readonly quiet: boolean
  /** Of work itself, and of dispatch's next cycle. */
  readonly nextDueMs: number | null
  readonly nextCycleMs: number | null
}

async function lookAround(loops: readonly SurveyedLoop[], deadline: number): Promise<Round> {
  const idle = loops.every(({ held }) => held === 0)
  const before = claimedBy(loops)
  const surveys = await Promise.race([
    Promise.all(loops.map((loop) => loop.survey(FURTHEST))),
    sleep(Math.max(0, deadline - performance.now()), undefined, { ref: false }),
  ])
  if (!surveys) return { quiet: false, nextDueMs: null, nextCycleMs: null }
  const quiet = idle && claimedBy(loops) === before && surveys.every(foundNothing)
  const earliest = (counts: (model: string) => boolean) =>
    least(surveys.map(({ nextDueMs }, place) => (counts(loops[place]?.model ?? '') ? nextDueMs : null)))
  return {
    quiet,
    nextDueMs: earliest((model) => model !== HOUSEKEEPING && model !== DISPATCH),
    nextCycleMs: earliest((model) => model === DISPATCH),
  }
}

/** A cycle is waited for if an item is due by then, or falls due later. */
async function earliestOf({ nextDueMs, nextCycleMs }: Round, nextItemDueMs: Drainable['nextItemDueMs']) {
  const itemMs = nextCycleMs === null ? null : await nextItemDueMs()
  const releaseMs = nextCycleMs === null || itemMs === null || itemMs > FURTHEST ? null : Math.max(nextCycleMs, itemMs)
  return least([nextDueMs, releaseMs])
}

function least(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null)
  return known.length === 0 ? null : Math.min(...known)
}

const claimedBy = (loops: readonly SurveyedLoop[]) => loops.reduce((sum, { claimed }) => sum + claimed, 0)

const foundNothing = ({ complete, taken, nextDueMs }: Survey) =>
  complete && taken === 0 && (nextDueMs === null || nextDueMs > 0)

function notIdle(timeoutMs: number, loops: readonly SurveyedLoop[], wasIdle: boolean): Error {
  if (wasIdle) return new Error(`nothing is due any more, and \`until\` does not hold after ${timeoutMs} ms`)
  const held = loops.filter((loop) => loop.held > 0).map((loop) => `${loop.model} (${loop.held})`)
  const why = held.length > 0 ? `still running: ${held.join(', ')}` : 'work keeps falling due'
  return new Error(`not idle after ${timeoutMs} ms; ${why}`)
}
