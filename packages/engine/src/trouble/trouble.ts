import {
  type BulkCall,
  type BulkResult,
  type By,
  type CancelOptions,
  checkBy,
  checkCancelOptions,
  type Database,
  type Page,
  type TroubleVerb,
  toPage,
} from '../kernel/model/index.js'
import { anything, boolean, declareOptions, orNull, required, text } from '../kernel/validation/declared.js'
import { assign } from './assign.js'
import { checkFilter, type TroubleFilter, type TroubleListFilter } from './filter.js'
import { type BulkOperators, operateTroubles } from './operate.js'
import {
  countTrouble,
  groupTrouble,
  listTrouble,
  placeOf,
  type Trouble,
  type TroubleGroup,
  type TroubleRow,
} from './queries/find-trouble.js'
import type { WhichTroubles } from './select.js'

export interface TroubleRetryOptions {
  /**
   * You have found out that calls of unknown outcome were not done, so they may be made again. Without it, such a call is inquired
   * about first; where that is not possible, its retry is refused.
   */
  readonly notDone?: boolean
}

export interface TroubleCompleteOptions {
  /** The result of the command, of the process, or of the failed step of a workflow. Items have no result. */
  readonly result?: unknown
}

export interface TroubleAssignOptions {
  /** Who takes care of it; `null` removes the assignment. */
  readonly to: string | null
}

/**
 * Work that needs a person, of all models. Every operation takes who acts and why (`by`), is audited, and returns
 * a result for each item: one that is refused, or locked by another transaction, does not stop the others.
 */
export interface Troubles {
  /**
   * Newest first, in pages. Default `limit`: 100.
   *
   * @example
   * const { items, cursor } = await hf.trouble.list({ domain: 'payments', code: 'BANK_DOWN' })
   */
  list(filter?: TroubleListFilter): Promise<Page<Trouble>>
  count(filter?: TroubleFilter): Promise<number>
  /**
   * Groups of equal failures, the most frequent first: a group usually has one cause.
   *
   * @example
   * const [worst] = await hf.trouble.groups()
   * if (worst) await hf.trouble.retry(worst, { actor: 'ann', reason: 'the bank is back' })
   */
  groups(filter?: TroubleFilter & { readonly limit?: number }): Promise<TroubleGroup[]>
  /**
   * Retries failed work, with all its attempts.
   *
   * @example
   * await hf.trouble.retry({ fingerprint }, { actor: 'ann', reason: 'the bank is back' })
   */
  retry(which: WhichTroubles, by: By, options?: TroubleRetryOptions): Promise<BulkResult[]>
  /**
   * Says that it was done by other means. A command and a process end completed with the result, an item ends completed, a failed step
   * of a workflow counts as done with this output and the instance continues. A failed compensation of a process or a workflow counts as
   * done, and the compensation continues; of a process it is refused with a result.
   */
  complete(which: WhichTroubles, by: By, options?: TroubleCompleteOptions): Promise<BulkResult[]>
  /** Cancels it. A process or a workflow is compensated unless `compensate` is false. */
  cancel(which: WhichTroubles, by: By, options?: CancelOptions): Promise<BulkResult[]>
  /**
   * Skips the failed step of a process or a workflow: it counts as done, without a result in a process, with its own input as
   * its output in a workflow. A failed compensation is left out. Commands and items have no steps, and are refused.
   */
  skip(which: WhichTroubles, by: By): Promise<BulkResult[]>
  /**
   * Records who takes care of it. It is shown as `assignedTo` until the work continues.
   *
   * @example
   * await hf.trouble.assign({ domain: 'payments' }, { actor: 'ann', reason: 'on call' }, { to: 'bob' })
   */
  assign(which: WhichTroubles, by: By, options: TroubleAssignOptions): Promise<BulkResult[]>
}

export function createTroubles(db: Database, operators: BulkOperators): Troubles {
  const operate = (
    verb: TroubleVerb,
    which: WhichTroubles,
    by: By,
    options: Partial<Omit<BulkCall, 'verb' | 'by'>>,
  ) => {
    const call = { verb, by: checkBy(`trouble.${verb}`, by), notDone: false, compensate: true, result: undefined }
    return operateTroubles(db, operators, { ...call, ...options }, which)
  }
  return {
    async list(filter) {
      const { conditions, limit } = checkFilter('trouble.list', filter, { limit: 100, cursor: true })
      const { items, cursor } = toPage(await listTrouble(db, conditions, limit + 1), limit, placeOf)
      return { items: items.map(toRecord), ...(cursor === undefined ? {} : { cursor }) }
    },
    count: async (filter) => countTrouble(db, checkFilter('trouble.count', filter).conditions),
    async groups(filter) {
      const { conditions, limit } = checkFilter('trouble.groups', filter, { limit: 100 })
      const { limit: _limit, ...carried } = filter ?? {}
      return (await groupTrouble(db, conditions, limit)).map((group) => ({ ...group, filter: carried }))
    },
    async retry(which, by, options) {
      return operate('retry', which, by, checkRetryOptions('trouble.retry', options))
    },
    async complete(which, by, options) {
      return operate('complete', which, by, checkCompleteOptions('trouble.complete', options))
    },
    async cancel(which, by, options) {
      return operate('cancel', which, by, checkCancelOptions('trouble.cancel', options))
    },
    skip: async (which, by) => operate('skip', which, by, {}),
    async assign(which, by, options) {
      const { to } = checkAssignOptions('trouble.assign', options)
      return assign(db, which, checkBy('trouble.assign', by), to)
    },
  }
}

const checkRetryOptions = declareOptions({ notDone: boolean({ default: false }) })
const checkCompleteOptions = declareOptions({ result: anything })
const checkAssignOptions = declareOptions({ to: orNull(required(text({ max: 200 }))) })

const toRecord = ({ place: _place, ...record }: TroubleRow): Trouble => record
