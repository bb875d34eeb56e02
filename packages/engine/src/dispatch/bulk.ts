import type { Database } from '../kernel/database/database.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { type BulkOperator, notInTrouble } from '../kernel/model/bulk.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { operateItems } from './queries/operate-items.js'

const OPERATIONS = { retry: 'RETRY', complete: 'COMPLETE', cancel: 'DISCARD' } as const

/** What operators do with many dead letters: the part of `hf.trouble` that is about dispatch. */
export function createDispatchBulk(db: Database): BulkOperator {
  return {
    atOnce: 500,
    async operate(call, of, items) {
      if (call.verb === 'skip') {
        const problem = 'an item has no steps'
        return items.map(({ id }) => new HoldfastError('HF_CANNOT_SKIP', { model: 'dispatch', ...of, id, problem }))
      }
      if (call.verb === 'complete' && call.result !== undefined) {
        throw invalidOption('trouble.complete', 'result', 'must be left out: an item of a dispatch has no result')
      }
      const itemType = `${of.domain}/${of.type}`
      const ids = items.map(({ id }) => id)
      const what = `${call.verb} items of ${itemType}`
      const operation = OPERATIONS[call.verb]
      const { answers } = await operatorCallForMany(db, what, ids, (tx, some) =>
        operateItems(tx, { operation, itemType, ids: some, change: { inTrouble: true } }, call.by),
      )
      const known = new Map(answers.map(({ key, outcome }) => [key, outcome]))
      return ids.map((id) => {
        const outcome = known.get(id)
        if (outcome === 'done') return undefined
        return outcome === undefined ? lockedByOther(`${call.verb} item ${id}`) : notInTrouble('dispatch', of, id)
      })
    },
  }
}
