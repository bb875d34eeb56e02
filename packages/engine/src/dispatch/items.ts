import type { Codec } from '../kernel/codec/codec.js'
import {
  type By,
  type CancelOptions,
  checkResultOptions,
  type Database,
  notFound,
  type RecordedAuditEntry,
  type ResultOptions,
  type Results,
  type Why,
} from '../kernel/model/index.js'
import { textOption } from '../kernel/validation/options.js'
import type { Executions, ItemOperations, RescheduleOptions, RetryItemOptions } from './operations.js'
import { type DispatchItemDetails, findItem } from './queries/find-items.js'
import { readHistory } from './queries/read-history.js'
import { readStanding } from './queries/read-standing.js'
import { type DispatchOf, itemTypeOf } from './reference.js'
import { itemResults, resultKey } from './results.js'
import { MOST_COUNTED, whyOf } from './why.js'

/** What a handle can do, for all items of an installation. */
export interface ItemCalls {
  get(dispatch: DispatchOf, key: string): Promise<DispatchItemDetails>
  result(dispatch: DispatchOf, key: string, options?: ResultOptions): Promise<unknown>
  history(dispatch: DispatchOf, key: string): Promise<readonly RecordedAuditEntry[]>
  why(dispatch: DispatchOf, key: string): Promise<Why>
  retry(dispatch: DispatchOf, key: string, by: By, options?: RetryItemOptions): Promise<void>
  cancel(dispatch: DispatchOf, key: string, by: By, options?: CancelOptions): Promise<void>
  complete(dispatch: DispatchOf, key: string, by: By): Promise<void>
  reschedule(dispatch: DispatchOf, key: string, by: By, change: RescheduleOptions): Promise<void>
  expedite(dispatch: DispatchOf, key: string, by: By): Promise<void>
}

interface Parts {
  readonly codec: Codec
  readonly results: Results
  readonly operations: ItemOperations
  readonly executions: Pick<Executions, 'why'>
}

export function createItemCalls(db: Database, { codec, results, operations, executions }: Parts): ItemCalls {
  async function why(dispatch: DispatchOf, key: string): Promise<Why> {
    const itemType = itemTypeOf('why', dispatch)
    const standing = await readStanding(db, itemType, key, MOST_COUNTED)
    if (!standing) throw notFound('dispatch', itemType, key)
    return whyOf(standing, standing.execution ? await executions.why(standing.execution) : undefined)
  }
  const source = itemResults(db, codec, why)
  const single = (operation: Parameters<typeof operations.single>[0], key: string) => operations.single(operation, key)

  return {
    async get(dispatch, key) {
      const itemType = itemTypeOf('get', dispatch)
      const item = await findItem(db, codec, itemType, key)
      if (!item) throw notFound('dispatch', itemType, key)
      return item
    },
    async result(dispatch, key, options) {
      const { timeout } = checkResultOptions('result', options)
      return results.wait(source, resultKey(itemTypeOf('result', dispatch), key), timeout)
    },
    async history(dispatch, key) {
      const itemType = itemTypeOf('history', dispatch)
      const entries = await readHistory(db, itemType, key)
      if (!entries) throw notFound('dispatch', itemType, key)
      return entries
    },
    why,
    retry: async (dispatch, key, by, options) => single(operations.retrying(dispatch, by, options), key),
    cancel: async (dispatch, key, by, options) => single(operations.cancelling(dispatch, by, options), key),
    complete: async (dispatch, key, by) => single(operations.completing(dispatch, by), key),
    reschedule: async (dispatch, key, by, change) => single(await operations.rescheduling(dispatch, by, change), key),
    expedite: async (dispatch, key, by) => single(operations.expediting(dispatch, by), key),
  }
}

export const checkItemKey = (where: string, key: unknown): string => textOption(where, 'key', key, { max: 200 })
