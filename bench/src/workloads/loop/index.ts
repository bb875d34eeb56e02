import type { Workload } from '../../harness/workload.js'
import { handBatched } from './hand-batched.js'
import { holdfastLoop } from './holdfast-loop.js'

/** What everything else is built on: how much of a hand-written script's speed is left when the kernel runs the items. */
export const loop: Workload = {
  name: 'loop',
  unit: 'items/s',
  measures:
    'drain of tiny due items by one process: the loop against hand-batched SQL (claim, complete, one audit row)',
  items: 200_000,
  systems: ({ concurrency }) => [
    handBatched({ connections: 1, batch: 2000 }),
    handBatched({ connections: 2, batch: 2000 }),
    ...(concurrency === undefined ? [500, 50] : [concurrency]).map((slots) => holdfastLoop({ concurrency: slots })),
  ],
}
