import { percentile } from '../../harness/percentile.js'
import type { Figures, Run, System } from '../../harness/workload.js'
import { WARM_UP } from './claims.js'

/** What waits before the claims begin. The delayed ones are sent first: they stand in front of those that are due. */
interface Backlog {
  readonly waiting: number
  readonly delayed: number
}

export interface ClaimingLibrary extends Pick<System, 'name' | 'version' | 'role' | 'config'> {
  readonly fill: (connectionString: string, backlog: Backlog) => Promise<void>
  readonly open: (connectionString: string) => Promise<Claimer>
}

interface Claimer {
  /** Milliseconds of each claim. */
  claims(): Promise<number[]>
  close(): Promise<void>
}

const SMALL = 10_000

/** The cases that a claim must not feel. `items` is the size of the big one. */
const cases = [
  { name: '10,000 waiting', of: (items: number): Backlog => ({ waiting: Math.min(SMALL, items), delayed: 0 }) },
  { name: 'all waiting', of: (items: number): Backlog => ({ waiting: items, delayed: 0 }) },
  {
    name: 'a fifth delayed in front',
    of: (items: number): Backlog => ({ waiting: Math.min(SMALL, items), delayed: Math.floor(items / 5) }),
  },
]

/** One system per case, all compared with the first of them. */
export function backlogSystems({ fill, open, ...about }: ClaimingLibrary): System[] {
  return cases.map(({ name, of }, place) => ({
    ...about,
    config: { ...about.config, backlog: name },
    group: about.name,
    baseline: place === 0,
    // Nobody finishes anything.
    anythingLeft: 'select false',
    prepare: ({ connectionString, items }) => fill(connectionString, of(items)),
    open: async ({ connectionString }) => runOf(await open(connectionString)),
  }))
}

function runOf(claimer: Claimer): Run {
  let durations: number[] = []
  return {
    async work() {
      durations = await claimer.claims()
    },
    figures: () => figuresOf(durations),
    close: () => claimer.close(),
  }
}

function figuresOf(durations: readonly number[]): Figures {
  if (durations.length === 0) throw new Error('too few items for a single claim: give more with --items')
  return {
    value: percentile(durations, 0.5),
    details: { p95: percentile(durations, 0.95) },
    costItems: durations.length + WARM_UP,
  }
}
