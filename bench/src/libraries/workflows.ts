import { setTimeout as sleep } from 'node:timers/promises'
import {
  defineWorkflow,
  type Holdfast,
  holdfast,
  type StepContext,
  type Worker,
  type WorkflowDefinition,
} from 'holdfast'
import { withClient } from '../harness/with-client.js'
import { chunksOf } from './payload.js'

/** What all steps of these workflows call. */
export const NOOP = 'Noop'

/** The steps of `fiveSteps`, declared. */
export const chain = defineWorkflow('test', 'chain')
  .step('a', NOOP)
  .step('b', NOOP)
  .step('c', NOOP)
  .step('d', NOOP)
  .step('e', NOOP)
  .build()

/** Eight steps at once, joined. */
export const fork = defineWorkflow('test', 'fork')
  .fork(
    'begin',
    (b) => b.step('a', NOOP),
    (b) => b.step('b', NOOP),
    (b) => b.step('c', NOOP),
    (b) => b.step('d', NOOP),
    (b) => b.step('e', NOOP),
    (b) => b.step('f', NOOP),
    (b) => b.step('g', NOOP),
    (b) => b.step('h', NOOP),
  )
  .join('end', 'all')
  .build()

export const anythingLeft = "select exists (select from holdfast.workflow where status <> 'COMPLETED')"

/** As many as will be measured, but no more than these: enough for plans, and for Node to have compiled its code. */
const MOST_BEFORE = 1_000
const ASK_EVERY_MS = 50

/** Starts so many instances; those of a chunk share statements. */
export async function startWorkflows(
  hf: Holdfast,
  instances: number,
  workflowOf: (place: number) => WorkflowDefinition,
): Promise<void> {
  for (const chunk of chunksOf(instances)) {
    await Promise.all(chunk.map(({ place }) => hf.start(workflowOf(place), { place })))
  }
}

/** The installation, instances that have run to their end, and those that wait. See `useBefore` of the processes. */
export async function fillWorkflows(
  connectionString: string,
  definition: WorkflowDefinition,
  { items, waiting }: { readonly items: number; readonly waiting: number },
): Promise<void> {
  const hf = await holdfast({ connectionString })
  try {
    const worker = await runWorkflows(hf, { concurrency: 200, called: () => undefined })
    await startWorkflows(hf, Math.min(items, MOST_BEFORE), () => definition)
    await untilNothingLeft(connectionString)
    await worker.stop()
    await startWorkflows(hf, waiting, () => definition)
  } finally {
    await hf.close()
  }
}

/** A worker whose handler does nothing but what `called` does. */
export function runWorkflows(
  hf: Holdfast,
  { concurrency, called }: { readonly concurrency: number; readonly called: (step: StepContext) => unknown },
): Promise<Worker> {
  hf.handle(NOOP, async (_, step) => {
    await called(step)
    return 1
  })
  return hf.run({ concurrency })
}

async function untilNothingLeft(connectionString: string): Promise<void> {
  await withClient(connectionString, async (client) => {
    for (;;) {
      const { rows } = await client.query<[boolean]>({ text: anythingLeft, rowMode: 'array' })
      if (rows[0]?.[0] === false) return
      await sleep(ASK_EVERY_MS)
    }
  })
}
