import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { WorkflowEngine } from './engine.js'
import type { Happened } from './happenings.js'
import { findDeadLetters } from './queries/find-dead-letters.js'

/** What became of one of many. */
export type RequeueAnswer =
  | { readonly deadLetter: string; readonly outcome: 'requeued' }
  | { readonly deadLetter: string; readonly outcome: 'refused'; readonly code: string; readonly message: string }

/** Tries many dead letters again, by their ids or by what they failed with; each has its own outcome. */
export type RequeueMany = (
  which: readonly string[] | { readonly fingerprint: string },
  by: By,
) => Promise<RequeueAnswer[]>

const MOST_LETTERS = 10_000
/** As many as one transaction does well within the time of an operator's call. */
const LETTERS_AT_ONCE = 50

export function createRequeueMany(
  db: Database,
  { codec, happenings }: Pick<WorkflowEngine, 'codec' | 'happenings'>,
): RequeueMany {
  async function requeueWithin(tx: Executor, id: string, by: By): Promise<Happened> {
    const [letter] = await findDeadLetters(tx, codec, { id: parseId('workflows.requeueMany: which', id) })
    if (!letter) throw new HoldfastError('HF_UNKNOWN_DEAD_LETTER', { id })
    const { instanceId, step } = letter
    return happenings.operateWithin(tx, { id: instanceId, occurrence: { type: 'requeued', step, by } })
  }

  /** In one transaction; one that is refused leaves the others alone. */
  async function requeueAll(tx: Executor, ids: readonly string[], by: By): Promise<Requeued[]> {
    const answers: Requeued[] = []
    for (const deadLetter of ids) {
      try {
        const happened = await requeueWithin(tx, deadLetter, by)
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

  return async (which, by) => {
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
  }
}

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
