import { HoldfastError } from '../kernel/errors.js'
import { type BulkOperator, createBulk, type Database, notInTrouble } from '../kernel/model/index.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { operateItems } from './queries/operate-items.js'

const OPERATIONS = { retry: 'RETRY', complete: 'COMPLETE', cancel: 'DISCARD' } as const

/** What operators do with many dead letters: the part of `hf.trouble` that is about dispatch. */
export function createDispatchBulk(db: Database): BulkOperator {
  return createBulk(db, {
    model: 'dispatch',
    atOnce: 500,
    troubles: {
      from: `
    join holdfast.dispatch_item as item on item.item_type = $1 and item.item_id = asked.id collate "C"
    join holdfast.dispatch_dead_letter as letter on letter.item_type = $1 and letter.item_id = asked.id collate "C"`,
      since: 'letter.since',
      of: 'item, letter',
    },
    async prepare({ verb, by, result }, of) {
      if (verb === 'skip') {
        const problem = 'an item has no steps'
        return async (_, items) =>
          items.map(({ id }) => ({
            refused: new HoldfastError('HF_CANNOT_SKIP', { model: 'dispatch', ...of, id, problem }),
          }))
      }
      if (verb === 'complete' && result !== undefined) {
        throw invalidOption('trouble.complete', 'result', 'must be left out: an item of a dispatch has no result')
      }
      const asked = { operation: OPERATIONS[verb], itemType: `${of.domain}/${of.type}`, change: { inTrouble: true } }
      return async (tx, items) => {
        const ids = items.map(({ id }) => id)
        const rows = await operateItems(tx, { ...asked, ids }, by)
        const done = new Set(rows.filter(({ outcome }) => outcome === 'done').map(({ key }) => key))
        return ids.map((id) => (done.has(id) ? {} : { refused: notInTrouble('dispatch', of, id) }))
      }
    },
  })
}
