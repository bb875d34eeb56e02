import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import { operatorCall } from '../kernel/database/operator-call.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, dateOption, integerOption, textOption } from '../kernel/validation/options.js'
import { type ItemAnswer, inChunks, operatingOn } from './operate.js'
import {
  countDeadLetters,
  type DeadLetter,
  type DeadLetterFilter,
  type DeadLetterGroup,
  groupDeadLetters,
  listDeadLetters,
  type RequeueAnswer,
  requeueDeadLetters,
} from './queries/dead-letters.js'
import { type DispatchOf, itemTypeOf } from './reference.js'

/** Which dead letters: by their ids, those that failed alike, or all of the type. */
export type WhichDeadLetters = readonly string[] | { readonly fingerprint: string } | 'all'

export interface RequeueOptions {
  /** Another execution time; their own unless given, which has passed: they are due at once. */
  readonly execTime?: Date | string
}

/** What operators do with items that failed too often (D-06). */
export interface DeadLetters {
  list(filter?: DeadLetterFilter): Promise<DeadLetter[]>
  count(filter?: DeadLetterFilter): Promise<number>
  /** Those that failed alike, the most frequent first. */
  groups(filter?: DeadLetterFilter): Promise<DeadLetterGroup[]>
  /**
   * Makes them READY again, with all their tries. Answers for each: `done`, `unknown`, or the status of an item that is no
   * dead letter.
   *
   * @example
   * await hf.dispatch.deadLetters.requeue(Settlement, { fingerprint }, { actor: 'ann', reason: 'the bank is back' })
   */
  requeue(
    dispatch: DispatchOf,
    which: WhichDeadLetters,
    by: By,
    options?: RequeueOptions,
  ): Promise<readonly RequeueAnswer[]>
  /** Gives them up: their items end FAILED. Says of each: `done`, `unknown`, `busy`, or its status. */
  discard(dispatch: DispatchOf, which: WhichDeadLetters, by: By): Promise<readonly ItemAnswer[]>
  /** Says that what they were for has been done by other means: their items end COMPLETED. */
  complete(dispatch: DispatchOf, which: WhichDeadLetters, by: By): Promise<readonly ItemAnswer[]>
}

/** Each transaction takes so many at most. */
const CHUNK = 1_000

export function createDeadLetters(db: Database): DeadLetters {
  async function end(operation: 'DISCARD' | 'COMPLETE', dispatch: DispatchOf, which: WhichDeadLetters, by: By) {
    const where = `deadLetters.${operation.toLowerCase()}`
    const itemType = itemTypeOf(where, dispatch)
    const operate = operatingOn(db, { operation, itemType }, checkBy(where, by))
    const { ids, fingerprint } = checkWhich(where, which)
    const answers = async (some: readonly string[]) =>
      (await operate(some)).map(({ itemId, outcome }) => ({ itemId, outcome }))
    return inChunks(db, itemType, ids ?? 'all', answers, { status: 'DEAD_LETTER', fingerprint })
  }

  return {
    discard: (dispatch, which, by) => end('DISCARD', dispatch, which, by),
    complete: (dispatch, which, by) => end('COMPLETE', dispatch, which, by),
    list: async (filter) => listDeadLetters(db, checkFilter('list', filter)),
    count: async (filter) => countDeadLetters(db, checkFilter('count', filter)),
    groups: async (filter) => groupDeadLetters(db, checkFilter('groups', filter)),
    async requeue(dispatch, which, by, options = {}) {
      const where = 'deadLetters.requeue'
      const itemType = itemTypeOf(where, dispatch)
      const actor = checkBy('requeue', by)
      const given = checkOptions(where, options, ['execTime'])
      const execTime = dateOption(where, 'execTime', given.execTime, { default: undefined }) ?? null
      const { ids, fingerprint } = checkWhich(where, which)
      const answers: RequeueAnswer[] = []
      for (let from = 0; ids === null || from < ids.length; from += CHUNK) {
        const chunk = ids?.slice(from, from + CHUNK) ?? null
        const asked = { itemType, ids: chunk, fingerprint, most: CHUNK, execTime }
        const done = await operatorCall(db, `requeue dead letters of ${itemType}`, (tx) =>
          requeueDeadLetters(tx, asked, actor),
        )
        answers.push(...done)
        if (ids === null && done.length < CHUNK) break
      }
      return answers
    },
  }
}

function checkWhich(where: string, which: unknown): { ids: readonly string[] | null; fingerprint: string | null } {
  if (which === 'all') return { ids: null, fingerprint: null }
  if (Array.isArray(which) && which.every((id) => typeof id === 'string')) return { ids: which, fingerprint: null }
  if (typeof which === 'object' && which !== null && 'fingerprint' in which) {
    const fingerprint = textOption(where, 'fingerprint', which.fingerprint)
    return { ids: null, fingerprint }
  }
  throw invalidOption(where, 'which', "must be a list of item ids, { fingerprint } or 'all'")
}

function checkFilter(operation: string, filter: DeadLetterFilter = {}): DeadLetterFilter {
  const where = `deadLetters.${operation}`
  const given = checkOptions(where, filter, ['itemType', 'fingerprint', 'limit'])
  textOption(where, 'itemType', given.itemType, { default: undefined })
  textOption(where, 'fingerprint', given.fingerprint, { default: undefined })
  integerOption(where, 'limit', given.limit, { min: 1, default: undefined })
  return filter
}
