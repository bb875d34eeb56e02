/** After a wake-up the worker polls again after these milliseconds: senders whose notification was throttled commit a moment later. */
const POLL_AGAIN = [5, 25, 125, 625]
const LONGEST_DELAY = 50

/**
 * When an idle worker polls next: at the next due time or after the poll interval, and again soon after a wake-up. When
 * other workers repeatedly claim the items that woke it, it waits a growing, random time first, so that a hundred idle
 * workers do not all poll for every item.
 */
export interface PollTiming {
  /** A notification arrived. Returns how long to wait before the poll. */
  woken(): number
  /** How long to wait after a claim that left slots free. */
  idleMs(nextDueMs: number | null): number
  claimed(items: number): void
}

export function createPollTiming(pollMs: number, random: () => number = Math.random): PollTiming {
  let pollAgain: readonly number[] = []
  let misses = 0
  let polling = false

  return {
    woken() {
      pollAgain = POLL_AGAIN
      polling = true
      return misses === 0 ? 0 : random() * Math.min(2 ** misses, LONGEST_DELAY)
    },
    idleMs(nextDueMs) {
      const [soon, ...later] = pollAgain
      pollAgain = later
      // Timers have whole milliseconds: rounded down, the poll would come before the due time.
      return Math.min(soon ?? pollMs, nextDueMs === null ? pollMs : Math.ceil(nextDueMs), pollMs)
    },
    claimed(items) {
      if (items > 0) misses = 0
      else if (polling) misses += 1
      polling = false
    },
  }
}
