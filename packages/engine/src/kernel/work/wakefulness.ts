/** After a wake-up the worker looks again at these distances: who was skipped by the throttle commits a moment later. */
const LOOK_AGAIN = [5, 25, 125, 625]
const LONGEST_HESITATION = 50

/**
 * When an idle worker looks next (K-06): at the next due time or the poll's ceiling, soon after a wake-up again, and,
 * when others keep taking what it was woken for, with a growing hesitation, so that a hundred idle workers do not all
 * rush for every item.
 */
export interface Wakefulness {
  /** A notification arrived: how long to wait before looking. */
  woken(): number
  /** How long to wait for after an answer that left slots free. */
  rest(nextDueMs: number | null): number
  claimed(items: number): void
}

export function createWakefulness(pollMs: number, random: () => number = Math.random): Wakefulness {
  let lookAgain: readonly number[] = []
  let fruitless = 0
  let looking = false

  return {
    woken() {
      lookAgain = LOOK_AGAIN
      looking = true
      return fruitless === 0 ? 0 : random() * Math.min(2 ** fruitless, LONGEST_HESITATION)
    },
    rest(nextDueMs) {
      const [soon, ...later] = lookAgain
      lookAgain = later
      // A due time between two milliseconds of the timer would be met too early, and looked for in vain.
      return Math.min(soon ?? pollMs, nextDueMs === null ? pollMs : Math.ceil(nextDueMs), pollMs)
    },
    claimed(items) {
      if (items > 0) fruitless = 0
      else if (looking) fruitless += 1
      looking = false
    },
  }
}
