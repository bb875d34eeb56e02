import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { type BulkCall, type BulkOperator, notInTrouble } from '../kernel/model/bulk.js'
import { requeueDeadLetters } from './queries/dead-letters.js'
import { operateItems } from './queries/operate-items.js'

/** What operators do with many dead letters: the part of `hf.trouble` that is about dispatch. */
export function createDispatchBulk(db: Database): BulkOperator {
  function workFor({ verb, by }: BulkCall, itemType: string) {
    if (verb === 'retry') {
      return (tx: Executor, ids: readonly string[]) =>
        requeueDeadLetters(tx, { itemType, ids, fingerprint: null, most: ids.length, execTime: null }, by)
    }
    const operation = verb === 'cancel' ? 'DISCARD' : 'COMPLETE'
    return (tx: Executor, ids: readonly string[]) => operateItems(tx, { operation, itemType, ids }, by)
  }

  return {
    atOnce: 500,
    async operate(call, of, items) {
      const refuse = refusalOfAll(call)
      if (refuse) return items.map(({ id }) => refuse(id))
      // Item types that were stored before definitions had domains are stored without one.
      const itemType = of.domain === 'default' ? of.type : `${of.domain}/${of.type}`
      const ids = items.map(({ id }) => id)
      const what = `${call.verb} items of ${of.domain}/${of.type}`
      const { answers } = await operatorCallForMany<string, { itemId: string; outcome: string }>(
        db,
        what,
        ids,
        workFor(call, itemType),
      )
      const known = new Map(answers.map(({ itemId, outcome }) => [itemId, outcome]))
      return ids.map((id) => {
        const outcome = known.get(id)
        if (outcome === 'done') return undefined
        return outcome === undefined ? lockedByOther(`${call.verb} item ${id}`) : notInTrouble('dispatch', of, id)
      })
    },
  }
}

function refusalOfAll({ verb, result }: BulkCall): ((id: string) => HoldfastError) | undefined {
  if (verb === 'skip') {
    return (id) => new HoldfastError('HF_CANNOT_SKIP', { what: 'item', id, problem: 'an item has no steps' })
  }
  if (verb !== 'complete' || result === undefined) return undefined
  const problem = 'must be left out: an item of a dispatch has no result'
  return () => new HoldfastError('HF_INVALID_OPTION', { where: 'trouble.complete', option: 'result', problem })
}
