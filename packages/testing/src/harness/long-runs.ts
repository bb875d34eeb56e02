import { spread } from '../crash/kill-points.js'

/**
 * Files named `*.matrix.test.ts` go through every case of something (every kill of a run, thousands of items). `npm test`
 * runs some cases of each, spread evenly; `npm run test:long` runs all of them.
 */
export const isLongRun = process.env.HOLDFAST_TEST_LONG === '1'

/** All cases in a long run; otherwise so many, from the first to the last. */
export function sampled<T>(all: readonly T[], most: number): readonly T[] {
  return isLongRun ? all : spread(all, most)
}

/** A size: that of a long run, or that of `npm test`. */
export function longOr<T>(long: T, short: T): T {
  return isLongRun ? long : short
}
