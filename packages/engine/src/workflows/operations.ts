import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { operatorCall, operatorCallForMany } from '../kernel/database/operator-call.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import {
  checkOptions,
  choiceOption,
  durationOption,
  integerOption,
  numberOption,
  textOption,
} from '../kernel/validation/options.js'
import type { Answer, HumanVerdict, Occurrence } from './decide/occurrence.js'
import type { WorkflowEngine } from './engine.js'
import type { Happened } from './happenings.js'
import { findDeadLetters } from './queries/find-dead-letters.js'
import type { InstanceEnd } from './states.js'

export interface RequeueOptions {
  /** Another input for the step, or for what the compensation sees as the step's input. */
  readonly input?: unknown
  /**
   * What became of a call of unknown outcome (K-20): `'notDone'`, so that it is made again; or `{ done: output }`, so that the
   * instance goes on with that output, and of a compensation that the step is undone. Without it, a call that must not be
   * repeated is inquired about first, and comes back with `OUTCOME_UNKNOWN` if that does not help.
   */
  readonly answer?: 'notDone' | { readonly done: unknown }
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
 * the instance has is refused with `HF_WRONG_STATUS` and changes nothing. Each call answers within five seconds (K-23):
 * `HF_BUSY` and `HF_DATABASE_UNAVAILABLE` say that it did not take effect and will not, `HF_OUTCOME_UNKNOWN` that it may have.
 */
export interface WorkflowOperations {
  /**
   * Confirms or rejects a human step. Confirmed, the instance goes on at once; rejected, it is aborted.
   *
   * @example
   * await hf.workflows.decide(id, 'approve', 'confirm', { actor: 'ann', reason: 'checked the invoice' })
   */
  decide(id: string, step: string, verdict: HumanVerdict, by: By): Promise<void>
  /** Stops what runs, wherever it does, undoes what was done, and ends `CANCELLED`. Twice is once. */
  cancel(id: string, by: By): Promise<void>
  /** Stops what runs and undoes nothing; ends `ABORTED`. Twice is once. */
  abort(id: string, by: By): Promise<void>
  /** Makes a step, or a compensation, that waits for its next attempt due at once. */
  retry(id: string, step: string, by: By): Promise<void>
  /**
   * Tries a dead letter again: its step from its first attempt on, with what was frozen beside it; of a compensation that
   * failed for good that one only.
   *
   * @example
   * await hf.workflows.requeue(letter.id, { actor: 'ann', reason: 'IBAN corrected' }, { input: { ...letter.input, iban } })
   * await hf.workflows.requeue(letter.id, { actor: 'ann', reason: 'seen at the bank' }, { answer: { done: { receipt: 7 } } })
   */
  requeue(deadLetter: string, by: By, options?: RequeueOptions): Promise<void>
  /** Many at once, by their ids or by what they failed with; each has its own answer. */
  requeueMany(which: readonly string[] | { readonly fingerprint: string }, by: By): Promise<RequeueAnswer[]>
  /** Points of priority per second that queued steps of all workflows gain, so that nothing starves; 0: none (W-12). */
  aging(): Promise<number>
  /**
   * Changes that for the whole installation: what is queued from now on has it. Default: 0.5.
   *
   * @example
   * await hf.workflows.setAging(0.1, { actor: 'ann', reason: 'night run first' })
   */
  setAging(pointsPerSecond: number, by: By): Promise<void>
  /** Removes instances that ended long ago; those with a dead letter wait for a person. Answers how many. */
  cleanUp(options: CleanUpOptions): Promise<number>
}

const ENDS = ['COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED'] as const satisfies readonly InstanceEnd[]
const MOST_LETTERS = 10_000
/** As many as one transaction does well within the time of an operator's call. */
const LETTERS_AT_ONCE = 50

export function createWorkflowOperations(db: Database, { codec, happenings }: WorkflowEngine): WorkflowOperations {
  async function operate(operation: string, id: string, occurrence: Occurrence): Promise<void> {
    const work = (tx: Executor) => happenings.operateWithin(tx, { id, occurrence })
    happenings.committed(await operatorCall(db, `${operation} workflow instance ${id}`, work))
  }

  async function requeueWithin(tx: Executor, id: string, how: Omit<Requeue, 'type' | 'step'>): Promise<Happened> {
    const [letter] = await findDeadLetters(tx, codec, { id: parseId('workflows.requeue: deadLetter', id) })
    if (!letter) throw new HoldfastError('HF_UNKNOWN_DEAD_LETTER', { id })
    const { instanceId, step } = letter
    return happenings.operateWithin(tx, { id: instanceId, occurrence: { type: 'requeued', step, ...how } })
  }

  function requeueOptions(options: RequeueOptions): Pick<Requeue, 'input' | 'answer'> {
    const given = checkOptions('workflows.requeue', options, ['input', 'answer'])
    const answer = given.answer === undefined ? undefined : readAnswer(given.answer)
    if (answer !== undefined && typeof answer === 'object' && 'input' in given) {
      throw invalidOption(
        'workflows.requeue',
        'input',
        'must be left out beside an answer that it was done: it is not called again',
      )
    }
    return {
      ...('input' in given ? { input: codec.encode(given.input ?? null, { at: 'input' }) } : {}),
      ...(answer === undefined ? {} : { answer }),
    }
  }

  function readAnswer(answer: unknown): Answer {
    if (answer === 'notDone') return answer
    if (typeof answer === 'object' && answer !== null && 'done' in answer) {
      return { done: codec.encode(answer.done ?? null, { at: 'answer.done' }) }
    }
    throw invalidOption('workflows.requeue', 'answer', `must be 'notDone' or { done: output }, not ${describe(answer)}`)
  }

  /** In one transaction; one that is refused leaves the others alone. */
  async function requeueAll(tx: Executor, ids: readonly string[], by: By): Promise<Requeued[]> {
    const answers: Requeued[] = []
    for (const deadLetter of ids) {
      try {
        const happened = await requeueWithin(tx, deadLetter, { by })
        answers.push({ answer: { deadLetter, outcome: 'requeued' }, happened })
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.status >= 500) throw error
        answers.push({ answer: refused(deadLetter, unknownLetter(deadLetter, error)) })
      }
    }
    return answers
  }

  async function requeuePart(ids: readonly string[], by: By): Promise<RequeueAnswer[]> {
    const operation = `requeue ${ids.length} dead letters`
    try {
      const { answers, busy } = await operatorCallForMany(db, operation, ids, (tx, some) => requeueAll(tx, some, by))
      for (const { happened } of answers) if (happened) happenings.committed(happened)
      const problem = 'another transaction has locked its instance'
      const held = new HoldfastError('HF_BUSY', { operation: 'requeue', waited: '200ms', problem })
      const byId = new Map([
        ...answers.map(({ answer }) => [answer.deadLetter, answer] as const),
        ...busy.map((id) => [id, refused(id, held)] as const),
      ])
      return ids.flatMap((id) => byId.get(id) ?? [])
    } catch (error) {
      // What it says of all of them: not done, or unknown.
      if (error instanceof HoldfastError) return ids.map((id) => refused(id, error))
      throw error
    }
  }

  return {
    async decide(id, step, verdict, by) {
      const decision = choiceOption('workflows.decide', 'verdict', verdict, ['confirm', 'reject'])
      const actor = checkBy('workflows.decide', by)
      const occurrence = { type: 'decided', step, decision, by: actor } as const
      await operate('decide', parseId('workflows.decide: id', id), occurrence)
    },
    async cancel(id, by) {
      const actor = checkBy('workflows.cancel', by)
      await operate('cancel', parseId('workflows.cancel: id', id), { type: 'cancel', by: actor })
    },
    async abort(id, by) {
      const actor = checkBy('workflows.abort', by)
      await operate('abort', parseId('workflows.abort: id', id), { type: 'abort', by: actor })
    },
    async retry(id, step, by) {
      const { actor, reason } = checkBy('workflows.retry', by)
      const instance = parseId('workflows.retry: id', id)
      const name = textOption('workflows.retry', 'step', step, { max: 200 })
      await operatorCall(db, `retry step ${name} of workflow instance ${instance}`, async (tx) => {
        const [row] = await tx.run<{ done: boolean }>(retryStatement, [instance, name, actor, reason])
        if (row?.done) return
        const [found] = await tx.run<{ known: boolean; status: string | null }>(statusStatement, [instance, name])
        if (!found?.known) throw new HoldfastError('HF_UNKNOWN_INSTANCE', { id })
        const status = found.status ?? 'not reached yet'
        const details = { what: 'step', id: `\`${name}\` of workflow instance ${id}`, status, operation: 'retried' }
        throw new HoldfastError('HF_WRONG_STATUS', details)
      })
    },
    async requeue(id, by, options = {}) {
      const how = { ...requeueOptions(options), by: checkBy('workflows.requeue', by) }
      const letter = parseId('workflows.requeue: deadLetter', id)
      const work = (tx: Executor) => requeueWithin(tx, letter, how)
      try {
        happenings.committed(await operatorCall(db, `requeue dead letter ${letter}`, work))
      } catch (error) {
        throw unknownLetter(id, error)
      }
    },
    async requeueMany(which, by) {
      const actor = checkBy('workflows.requeueMany', by)
      const problem = `must be a list of ids or { fingerprint }, not ${describe(which)}`
      if (typeof which !== 'object' || which === null || !(Array.isArray(which) || 'fingerprint' in which)) {
        throw invalidOption('workflows.requeueMany', 'which', problem)
      }
      const ids =
        'fingerprint' in which
          ? (await findDeadLetters(db, codec, { ...which, limit: MOST_LETTERS })).map(({ id }) => id)
          : which
      const answers: RequeueAnswer[] = []
      for (let from = 0; from < ids.length; from += LETTERS_AT_ONCE) {
        const part = ids.slice(from, from + LETTERS_AT_ONCE)
        const last = answers.at(-1)
        // Without a database the rest would wait five seconds each time to hear the same.
        if (last?.outcome === 'refused' && last.code === 'HF_DATABASE_UNAVAILABLE') {
          answers.push(...part.map((deadLetter) => ({ ...last, deadLetter })))
        } else answers.push(...(await requeuePart(part, actor)))
      }
      return answers
    },
    async aging() {
      const [row] = await db.run<{ aging: number }>(agingStatement)
      return row?.aging ?? 0
    },
    async setAging(pointsPerSecond, by) {
      const { actor, reason } = checkBy('workflows.setAging', by)
      const rate = numberOption('workflows.setAging', 'pointsPerSecond', pointsPerSecond, { min: 0, max: 1_000 })
      await operatorCall(db, 'set the aging of workflows', (tx) => tx.run(setAgingStatement, [rate, actor, reason]))
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

type Requeue = Extract<Occurrence, { type: 'requeued' }>

interface Requeued {
  readonly answer: RequeueAnswer
  readonly happened?: Happened
}

const refused = (deadLetter: string, { code, message }: HoldfastError): RequeueAnswer => ({
  deadLetter,
  outcome: 'refused',
  code,
  message,
})

/** Another person was quicker: the letter is gone by now. */
function unknownLetter<E>(id: string, error: E): E | HoldfastError<'HF_UNKNOWN_DEAD_LETTER'> {
  if (!(error instanceof HoldfastError) || error.code !== 'HF_WRONG_STATUS') return error
  return new HoldfastError('HF_UNKNOWN_DEAD_LETTER', { id }, { cause: error })
}

const agingStatement = { name: 'workflows.aging', text: 'select holdfast.workflow_aging() as aging' }
const setAgingStatement = { name: 'workflows.set-aging', text: 'select holdfast.set_workflow_aging($1, $2, $3)' }
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
  text: `select holdfast.clean_up_workflows($1::text[], holdfast.now() - $2::float8 * interval '1 ms', $3) as removed`,
}
