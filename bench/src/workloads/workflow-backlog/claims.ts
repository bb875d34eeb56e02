import { defineWorkflow, holdfast, type WorkflowDefinition } from 'holdfast'
import pg from 'pg'
import { percentile } from '../../harness/percentile.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { NOOP, startWorkflows } from '../../libraries/workflows.js'
import { CLAIM_SIZE, CLAIMS, timeClaims, WARM_UP } from '../commands-backlog/claims.js'

const FEW = 20_000
/** What lies between the first claims and the last is claimed in larger ones, which are not timed. */
const MIDDLE = 5_000

const known = new Map<number, WorkflowDefinition>()

/** Mixed priorities, in one queue: which of them is next, only their ranks say. */
function mixedWorkflow(place: number): WorkflowDefinition {
  const priority = 5 + 10 * (place % 10)
  let definition = known.get(priority)
  if (definition === undefined) {
    definition = defineWorkflow('test', `mixed ${priority}`).step('only', NOOP, { priority }).build()
    known.set(priority, definition)
  }
  return definition
}

/** The cases that a claim must not feel, compared with the first. `items` is the size of the big one. */
export const backlogCases: readonly System[] = [
  { name: 'few', of: (items: number) => Math.min(FEW, items) },
  { name: 'all', of: (items: number) => items },
].map((backlog, place) => ({
  name: 'holdfast workflow claim',
  version,
  role: 'holdfast',
  config: { waiting: backlog.name },
  group: 'claims',
  baseline: place === 0,
  // Nobody finishes anything.
  anythingLeft: 'select false',
  prepare: (task) => fill(task.connectionString, backlog.of(task.items)),
  open: (task) => openClaims(task, backlog.of(task.items)),
}))

async function fill(connectionString: string, waiting: number): Promise<void> {
  const hf = await holdfast({ connectionString })
  try {
    await startWorkflows(hf, waiting, mixedWorkflow)
  } finally {
    await hf.close()
  }
}

/** The worker's own statement, with a lease that nobody outlives. */
async function openClaims({ connectionString }: Task, waiting: number): Promise<Run> {
  const client = new pg.Client(connectionString)
  await client.connect()
  let left = waiting
  async function claim(most: number): Promise<number> {
    const { rows } = await client.query<{ items: readonly unknown[] }>({
      name: 'claim',
      text: CLAIM,
      values: [[NOOP], most],
    })
    const claimed = rows[0]?.items.length ?? 0
    left -= claimed
    return claimed
  }
  // Of a small backlog, as many as are in one half of it.
  const claims = Math.min(WARM_UP + CLAIMS, Math.floor(waiting / CLAIM_SIZE / 2))
  let first: number[] = []
  let last: number[] = []
  return {
    async work() {
      first = await timeClaims(() => claim(CLAIM_SIZE), claims)
      while (left > claims * CLAIM_SIZE) {
        if ((await claim(Math.min(MIDDLE, left - claims * CLAIM_SIZE))) === 0)
          throw new Error('fewer wait than were put')
      }
      last = await timeClaims(() => claim(CLAIM_SIZE), claims)
    },
    figures() {
      if (last.length === 0) throw new Error('too few items for a single claim: give more with --items')
      const details = { p95: percentile(first, 0.95), last: percentile(last, 0.5), 'last p95': percentile(last, 0.95) }
      return { value: percentile(first, 0.5), details, costItems: waiting / CLAIM_SIZE }
    },
    close: () => client.end(),
  }
}

const HOUR_MS = 3_600_000
const CLAIM = `select items from holdfast.claim_workflow_steps($1::text[], 'bench', $2, ${HOUR_MS}, ${HOUR_MS}, false, 1000)`
