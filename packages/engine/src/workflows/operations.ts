import { type Actor, checkActor } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { checkOptions, choiceOption, durationOption, integerOption, textOption } from '../kernel/validation/options.js'
import type { HumanVerdict } from './decide/occurrence.js'
import type { WorkflowEngine } from './engine.js'
import { findDeadLetters } from './queries/find-dead-letters.js'
import type { InstanceEnd } from './states.js'

export interface RequeueOptions {
  /** Another input for the step, or for what the compensation sees as the step's input. */
  readonly input?: unknown
}

/** What became of one of many. */
export type RequeueAnswer =
  | { readonly deadLetter: string; readonly outcome: 'requeued' }
  | { readonly deadLetter: string; readonly outcome: 'refused'; readonly code: string; readonly message: string }

export interface CleanUpOptions {
  /** How long ago they ended. */
  readonly olderThan: Duration
  /** All terminal statuses unless given. */
  readonly statuses?: readonly InstanceEnd[]
  /** The most to remove at once: 1,000 unless given. Answered less than that, there are no more. */
  readonly limit?: number
}

/**
 * What people do with instances. Everything takes who acts and why and is on record; what makes no sense in the status that
 * the instance has is refused with `HF_WRONG_STATUS` and changes nothing.
 */
export interface WorkflowOperations {
  /**
   * Confirms or rejects a human step. Confirmed, the instance goes on at once; rejected, it is aborted.
   *
   * @example
   * await hf.workflows.decide(id, 'approve', 'confirm', { actor: 'ann', reason: 'checked the invoice' })
   */
  decide(id: string, step: string, verdict: HumanVerdict, by: Actor): Promise<void>
  /** Stops what runs, wherever it does, undoes what was done, and ends `CANCELLED`. Twice is once. */
  cancel(id: string, by: Actor): Promise<void>
  /** Stops what runs and undoes nothing; ends `ABORTED`. Twice is once. */
  abort(id: string, by: Actor): Promise<void>
  /** Makes a step, or a compensation, that waits for its next attempt due at once. */
  retry(id: string, step: string, by: Actor): Promise<void>
  /**
   * Tries a dead letter again: its step from its first attempt on, with what was frozen beside it; of a compensation that
   * failed for good that one only.
   *
   * @example
   * await hf.workflows.requeue(letter.id, { actor: 'ann', reason: 'IBAN corrected' }, { input: { ...letter.input, iban } })
   */
  requeue(deadLetter: string, by: Actor, options?: RequeueOptions): Promise<void>
  /** Many at once, by their ids or by what they failed with; each has its own answer. */
  requeueMany(which: readonly string[] | { readonly fingerprint: string }, by: Actor): Promise<RequeueAnswer[]>
  /** Removes instances that ended long ago; those with a dead letter wait for a person. Answers how many. */
  cleanUp(options: CleanUpOptions): Promise<number>
}

const ENDS = ['COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED'] as const satisfies readonly InstanceEnd[]
const MOST_LETTERS = 10_000

export function createWorkflowOperations(db: Database, { codec, happenings }: WorkflowEngine): WorkflowOperations {
  async function requeue(id: string, by: Actor, options: RequeueOptions = {}): Promise<void> {
    const given = checkOptions('workflows.requeue', options, ['input'])
    const actor = checkActor('workflows.requeue', by)
    const letterId = parseId('workflows.requeue: deadLetter', id)
    const [letter] = await findDeadLetters(db, codec, { id: letterId })
    if (!letter) throw new HoldfastError('HF_UNKNOWN_DEAD_LETTER', { id })
    const { instanceId, step } = letter
    const input = 'input' in given ? { input: codec.encode(given.input ?? null, { at: 'input' }) } : {}
    try {
      await happenings.report({ id: instanceId, occurrence: { type: 'requeued', step, ...input, by: actor } })
    } catch (error) {
      // Somebody was quicker.
      if (!(error instanceof HoldfastError) || error.code !== 'HF_WRONG_STATUS') throw error
      throw new HoldfastError('HF_UNKNOWN_DEAD_LETTER', { id }, { cause: error })
    }
  }

  return {
    async decide(id, step, verdict, by) {
      const decision = choiceOption('workflows.decide', 'verdict', verdict, ['confirm', 'reject'])
      const actor = checkActor('workflows.decide', by)
      const occurrence = { type: 'decided', step, decision, by: actor } as const
      await happenings.report({ id: parseId('workflows.decide: id', id), occurrence })
    },
    async cancel(id, by) {
      const actor = checkActor('workflows.cancel', by)
      await happenings.report({ id: parseId('workflows.cancel: id', id), occurrence: { type: 'cancel', by: actor } })
    },
    async abort(id, by) {
      const actor = checkActor('workflows.abort', by)
      await happenings.report({ id: parseId('workflows.abort: id', id), occurrence: { type: 'abort', by: actor } })
    },
    async retry(id, step, by) {
      const { actor, reason } = checkActor('workflows.retry', by)
      const instance = parseId('workflows.retry: id', id)
      const name = textOption('workflows.retry', 'step', step, { max: 200 })
      const [row] = await db.run<{ done: boolean }>(retryStatement, [instance, name, actor, reason])
      if (row?.done) return
      const [found] = await db.run<{ known: boolean; status: string | null }>(statusStatement, [instance, name])
      if (!found?.known) throw new HoldfastError('HF_UNKNOWN_INSTANCE', { id })
      const status = found.status ?? 'not reached yet'
      const details = { what: 'step', id: `\`${name}\` of workflow instance ${id}`, status, operation: 'retried' }
      throw new HoldfastError('HF_WRONG_STATUS', details)
    },
    requeue,
    async requeueMany(which, by) {
      checkActor('workflows.requeueMany', by)
      const ids =
        'fingerprint' in which
          ? (await findDeadLetters(db, codec, { ...which, limit: MOST_LETTERS })).map(({ id }) => id)
          : which
      return Promise.all(
        ids.map(async (deadLetter): Promise<RequeueAnswer> => {
          try {
            await requeue(deadLetter, by)
            return { deadLetter, outcome: 'requeued' }
          } catch (error) {
            if (!(error instanceof HoldfastError) || error.status >= 500) throw error
            return { deadLetter, outcome: 'refused', code: error.code, message: error.message }
          }
        }),
      )
    },
    async cleanUp(options) {
      const where = 'workflows.cleanUp'
      const given = checkOptions(where, options, ['olderThan', 'statuses', 'limit'])
      const olderThan = durationOption(where, 'olderThan', given.olderThan)
      const limit = integerOption(where, 'limit', given.limit, { min: 1, max: 100_000, default: 1_000 })
      const statuses = options.statuses ?? ENDS
      for (const status of statuses) choiceOption(where, 'statuses', status, ENDS)
      const [row] = await db.run<{ removed: number }>(cleanUpStatement, [statuses, olderThan, limit])
      return row?.removed ?? 0
    },
  }
}

const retryStatement = {
  name: 'workflows.retry-step',
  text: 'select holdfast.retry_workflow_step($1, $2, $3, $4) as done',
}
const statusStatement = {
  name: 'workflows.step-status',
  text: `
    select true as known, (select status from holdfast.workflow_step where workflow_id = $1 and name = $2)
    from holdfast.workflow
    where id = $1`,
}
const cleanUpStatement = {
  name: 'workflows.clean-up',
  text: `select holdfast.clean_up_workflows($1::text[], holdfast.now() - $2 * interval '1 ms', $3) as removed`,
}
