import type { By } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { BulkResult } from '../kernel/model/bulk.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, integerOption, textOption } from '../kernel/validation/options.js'
import type { ItemOperations, PreparedOperation, RetryItemOptions } from './operations.js'
import {
  countDeadLetters,
  type DeadLetter,
  type DeadLetterFilter,
  type DeadLetterGroup,
  groupDeadLetters,
  listDeadLetters,
} from './queries/dead-letters.js'
import type { DispatchOf } from './reference.js'

/** Which dead letters: by their keys, those that failed alike, or all of the type. */
export type WhichDeadLetters = readonly string[] | { readonly fingerprint: string } | 'all'

/** What operators do with many items that failed too often. */
export interface DeadLetters {
  list(filter?: DeadLetterFilter): Promise<DeadLetter[]>
  count(filter?: DeadLetterFilter): Promise<number>
  /** Those that failed alike, the most frequent first. */
  groups(filter?: DeadLetterFilter): Promise<DeadLetterGroup[]>
  /**
   * Makes them READY again, with all their attempts.
   *
   * @example
   * await hf.dispatch.deadLetters.retryMany(Settlement, { fingerprint }, { actor: 'ann', reason: 'the bank is back' })
   */
  retryMany(
    dispatch: DispatchOf,
    which: WhichDeadLetters,
    by: By,
    options?: RetryItemOptions,
  ): Promise<readonly BulkResult[]>
  /** Gives them up: their items end FAILED. */
  cancelMany(dispatch: DispatchOf, which: WhichDeadLetters, by: By): Promise<readonly BulkResult[]>
  /** Says that what they were for has been done by other means: their items end COMPLETED. */
  completeMany(dispatch: DispatchOf, which: WhichDeadLetters, by: By): Promise<readonly BulkResult[]>
}

export function createDeadLetters(db: Database, operations: ItemOperations): DeadLetters {
  async function many(where: string, operation: PreparedOperation, which: WhichDeadLetters) {
    const { keys, fingerprint } = checkWhich(where, which)
    return operations.many(operation, keys ?? 'all', { status: 'DEAD_LETTER', fingerprint })
  }

  return {
    list: async (filter) => listDeadLetters(db, checkFilter('list', filter)),
    count: async (filter) => countDeadLetters(db, checkFilter('count', filter)),
    groups: async (filter) => groupDeadLetters(db, checkFilter('groups', filter)),
    retryMany: async (dispatch, which, by, options) =>
      many('deadLetters.retryMany', operations.retrying(dispatch, by, options), which),
    cancelMany: async (dispatch, which, by) =>
      many('deadLetters.cancelMany', operations.discarding(dispatch, by), which),
    completeMany: async (dispatch, which, by) =>
      many('deadLetters.completeMany', operations.completing(dispatch, by), which),
  }
}

function checkWhich(where: string, which: unknown): { keys: readonly string[] | null; fingerprint: string | null } {
  if (which === 'all') return { keys: null, fingerprint: null }
  if (Array.isArray(which) && which.every((key) => typeof key === 'string')) return { keys: which, fingerprint: null }
  if (typeof which === 'object' && which !== null && 'fingerprint' in which) {
    const fingerprint = textOption(where, 'fingerprint', which.fingerprint)
    return { keys: null, fingerprint }
  }
  throw invalidOption(where, 'which', "must be a list of keys, { fingerprint } or 'all'")
}

function checkFilter(operation: string, filter: DeadLetterFilter = {}): DeadLetterFilter {
  const where = `deadLetters.${operation}`
  const given = checkOptions(where, filter, ['itemType', 'fingerprint', 'limit'])
  textOption(where, 'itemType', given.itemType, { default: undefined })
  textOption(where, 'fingerprint', given.fingerprint, { default: undefined })
  integerOption(where, 'limit', given.limit, { min: 1, default: undefined })
  return filter
}
