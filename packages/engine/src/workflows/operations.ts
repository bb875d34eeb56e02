// What operators do to one workflow instance: decide, retry, cancel, complete. Handles call it. Each call runs in one
// transaction, is audited, and returns within five seconds. A call that does not fit the status of the instance changes
// nothing.

import {
  type By,
  checkBy,
  type Database,
  type Executor,
  operatorCall,
  workOf,
  wrongStatus,
} from '../kernel/model/index.js'
import { anything, boolean, declareOptions, text } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { choiceOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { HumanChoice, InstanceEvent } from './decide/instance-event.js'
import type { WorkflowEngine } from './engine.js'
import type { AppliedEvent } from './instance-events.js'
import { instanceNotFound } from './not-found.js'
import { stepVerbStatuses, verbStatuses } from './states.js'

export interface RetryOptions {
  /** The step, also where its compensation is meant. Default: all that failed for good. */
  readonly step?: string
  /** Another input for the step, or for what the compensation sees as the input of the step. Only for what failed for good. */
  readonly input?: unknown
  /**
   * A person found out that the call, whose outcome was unknown, was not done: it is made again. Without it a call that must not be
   * repeated is inquired about first, and fails again with `OUTCOME_UNKNOWN` if that does not help. Default: false.
   */
  readonly notDone?: boolean
}

export interface CompleteOptions {
  /** The step, also where its compensation is meant. Can be left out while only one step waits for a person. */
  readonly step?: string
}

/** The instance that is operated on: what errors call it, and its id, which may have to be looked up by a key. */
export interface OperatedInstance {
  readonly label: string
  readonly find: (executor: Executor) => Promise<string>
}

export type InstanceOperations = ReturnType<typeof createInstanceOperations>

type Requeue = Extract<InstanceEvent, { type: 'requeued' }>

export function createInstanceOperations(
  db: Database,
  { codec, events, definitions }: Pick<WorkflowEngine, 'codec' | 'events' | 'definitions'>,
) {
  type Work = (tx: Executor, id: string) => Promise<AppliedEvent[]>

  async function operate(operation: string, { label, find }: OperatedInstance, work: Work): Promise<void> {
    const within = async (tx: Executor) => work(tx, await find(tx))
    for (const applied of await operatorCall(db, `${operation} workflow instance ${label}`, within)) {
      events.committed(applied)
    }
  }

  const apply = (operation: string, on: OperatedInstance, event: InstanceEvent) =>
    operate(operation, on, async (tx, id) => [await events.operateWithin(tx, { id, event })])

  /** Each is decided on what the one before it changed. */
  async function requeue(tx: Executor, id: string, steps: readonly string[], how: Omit<Requeue, 'type' | 'step'>) {
    const applied: AppliedEvent[] = []
    for (const step of steps) {
      applied.push(await events.operateWithin(tx, { id, event: { type: 'requeued', step, ...how } }))
    }
    return applied
  }

  /** Where the start was refused, what is given instead is checked as its input would have been. */
  async function checkInput(tx: Executor, id: string, input: unknown): Promise<unknown> {
    const [refused] = await tx.run<{ name: string; version: number }>(refusedStatement, [id])
    if (!refused) return input
    const where = 'workflow.retry'
    const schema = definitions.inputSchema(refused)
    if (schema) return parseWith(schema, input, `${where}: input`)
    const workflow = `${refused.name}-v${refused.version}`
    throw invalidOption(where, 'input', `cannot be checked: register ${workflow} here, or retry where it is registered`)
  }

  return {
    async decide(on: OperatedInstance, step: string, choice: HumanChoice, by: By): Promise<void> {
      const decision = choiceOption('workflow.decide', 'decision', choice, ['confirm', 'reject'])
      const actor = checkBy('workflow.decide', by)
      await apply('decide', on, { type: 'decided', step, decision, by: actor })
    },
    async cancel(on: OperatedInstance, by: By, compensate: boolean): Promise<void> {
      const actor = checkBy('workflow.cancel', by)
      await apply('cancel', on, { type: compensate ? 'cancel' : 'abort', by: actor })
    },
    async retry(on: OperatedInstance, by: By, options?: RetryOptions): Promise<void> {
      const where = 'workflow.retry'
      const actor = checkBy(where, by)
      const { step, notDone } = checkRetryOptions(where, options)
      const hasInput = options !== undefined && 'input' in options
      const how = { by: actor, ...(notDone ? { answer: 'notDone' as const } : {}) }
      const isAboutOne = hasInput || notDone
      await operate('retry', on, async (tx, id) => {
        const failed = await failedSteps(tx, id, step)
        if (failed.length > 0) {
          if (isAboutOne) oneOf(where, failed)
          if (!hasInput) return requeue(tx, id, failed, how)
          const checked = await checkInput(tx, id, options.input)
          return requeue(tx, id, failed, { ...how, input: codec.encode(checked ?? null, { at: 'input' }) })
        }
        if (isAboutOne) await refuse(tx, 'retry', id, step)
        for (const waiting of step === undefined ? await waitingSteps(tx, id) : [step]) {
          const [row] = await tx.run<{ done: boolean }>(retryStatement, [id, waiting, actor.actor, actor.reason])
          if (!row?.done) await refuse(tx, 'retry', id, waiting)
        }
        return []
      })
    },
    async complete(on: OperatedInstance, by: By, output: unknown, options?: CompleteOptions): Promise<void> {
      const where = 'workflow.complete'
      const actor = checkBy(where, by)
      const { step } = checkCompleteOptions(where, options)
      const done = codec.encode(output ?? null, { at: 'output' })
      await operate('complete', on, async (tx, id) => {
        const failed = await failedSteps(tx, id, step)
        if (failed.length === 0) await refuse(tx, 'complete', id, step)
        return requeue(tx, id, [oneOf(where, failed)], { by: actor, answer: { done } })
      })
    },
  }
}

const step = text({ max: 200 })
const checkCompleteOptions = declareOptions({ step })
const checkRetryOptions = declareOptions({ step, input: anything, notDone: boolean({ default: false }) })

/** What an operator says about one call must not be applied to another. */
function oneOf(where: string, failed: readonly string[]): string {
  const [step = '', ...others] = failed
  if (others.length === 0) return step
  const problem = `must say which of the steps is meant that failed for good: ${failed.join(', ')}`
  throw invalidOption(where, 'step', problem)
}

async function failedSteps(tx: Executor, id: string, step: string | undefined): Promise<string[]> {
  const rows = await tx.run<{ step: string }>(failedStatement, [id, step ?? null])
  return rows.map((row) => row.step)
}

async function waitingSteps(tx: Executor, id: string): Promise<string[]> {
  const rows = await tx.run<{ name: string }>(waitingStatement, [id])
  if (rows.length === 0) await refuse(tx, 'retry', id, undefined)
  return rows.map(({ name }) => name)
}

/** Says why there is nothing to do: there is no such instance, or its status or that of the step does not fit. */
async function refuse(tx: Executor, verb: 'retry' | 'complete', id: string, step: string | undefined): Promise<never> {
  const [found] = await tx.run<{ name: string; status: string; step: string | null }>(statusStatement, [
    id,
    step ?? null,
  ])
  if (!found) throw instanceNotFound(id)
  const work = workOf('workflows', found.name, id)
  if (step === undefined) throw wrongStatus(work, verb, found.status, verbStatuses)
  throw wrongStatus(work, verb, found.step ?? 'not reached yet', stepVerbStatuses, step)
}

const failedStatement = {
  name: 'workflows.failed-steps',
  text: `
    select step
    from holdfast.workflow_dead_letter
    where workflow_id = $1 and ($2::text is null or step = $2)
    order by number`,
}
// As `isRefusedInput` of decide/fail.ts has it.
const refusedStatement = {
  name: 'workflows.refused-start',
  text: `
    select workflow.name, workflow.version
    from holdfast.workflow_dead_letter as letter
    join holdfast.workflow_step as step on step.workflow_id = letter.workflow_id and step.number = letter.number
    join holdfast.workflow on workflow.id = letter.workflow_id
    where letter.workflow_id = $1 and letter.number = 0 and step.attempts = 0
      and letter.failure ->> 'code'::text = 'HF_INVALID_DATA'`,
}
const waitingStatement = {
  name: 'workflows.waiting-steps',
  text: `
    select name
    from holdfast.workflow_step
    where workflow_id = $1 and number >= 0 and handler is not null and not ready and leased_at is null
      and due_at < 'infinity'
    order by number`,
}
const retryStatement = {
  name: 'workflows.retry-step',
  text: 'select holdfast.retry_workflow_step($1, $2, $3, $4) as done',
}
const statusStatement = {
  name: 'workflows.step-status',
  text: `
    select name, status, (select status from holdfast.workflow_step where workflow_id = $1 and name = $2) as step
    from holdfast.workflow
    where id = $1`,
}
