import { holdfast, type WorkflowDefinition } from 'holdfast'
import { newId } from 'holdfast/internal'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { atOnce } from '../../libraries/processes/at-once.js'
import { anythingLeft, fillWorkflows, runWorkflows } from '../../libraries/workflows.js'
import { createTally } from '../commands-drain/tally.js'

const about = { name: 'holdfast workflows', version, role: 'holdfast', anythingLeft } as const

/** A worker and instances that were started for it beforehand. */
export function waitingWorkflows(definition: WorkflowDefinition, concurrency: number): System {
  return {
    ...about,
    config: { concurrency, started: 'beforehand' },
    prepare: ({ connectionString, items }) => fillWorkflows(connectionString, definition, { items, waiting: items }),
    async open({ connectionString, items }) {
      const hf = await holdfast({ connectionString })
      const calls = createTally(items * tasksOf(definition))
      return {
        async work() {
          await runWorkflows(hf, { concurrency, called: () => calls.add(1) })
          await calls.full
        },
        close: () => hf.close(),
      }
    },
  }
}

/** A worker, and callers who each start an instance, wait until its last step is called and start the next. */
export function workflowsOfCallers(definition: WorkflowDefinition, callers: number): System {
  return {
    ...about,
    config: { concurrency: callers, started: `by ${callers} callers` },
    prepare: ({ connectionString, items }) => fillWorkflows(connectionString, definition, { items, waiting: 0 }),
    open: (task) => openCallers(definition, task, callers),
  }
}

async function openCallers(
  definition: WorkflowDefinition,
  { connectionString, items }: Task,
  callers: number,
): Promise<Run> {
  const hf = await holdfast({ connectionString })
  const last = definition.steps.at(-1)?.name
  const waiting = new Map<string, () => void>()
  await runWorkflows(hf, {
    concurrency: callers,
    called({ stepName, instanceId }) {
      if (stepName !== last) return
      waiting.get(instanceId)?.()
      waiting.delete(instanceId)
    },
  })

  async function runOne(): Promise<void> {
    // Known before it is started: its end may come before the answer to its start.
    const id = newId()
    const done = new Promise<void>((resolve) => waiting.set(id, resolve))
    await hf.start(definition, null, { id })
    await done
  }

  return { work: () => atOnce(callers, items, runOne), close: () => hf.close() }
}

const tasksOf = ({ steps }: WorkflowDefinition): number => steps.filter(({ type }) => type === 'task').length
