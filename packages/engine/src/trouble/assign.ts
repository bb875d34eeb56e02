import type { HoldfastError } from '../kernel/errors.js'
import {
  type BulkResult,
  type By,
  createLockBudget,
  type Database,
  type Executor,
  notInTrouble,
  operatorCallForMany,
} from '../kernel/model/index.js'
import { refused, resultOf } from './operate.js'
import { assignTroubles } from './queries/assign-trouble.js'
import type { TroubleKey } from './queries/find-trouble.js'
import { identityOf, keysOf, selectTroubles, type TroubleReference } from './select.js'

const AT_ONCE = 200

/** Assigns the selected work to a person; `null` removes the assignment. */
export async function assign(db: Database, which: unknown, by: By, to: string | null): Promise<BulkResult[]> {
  const { found, missing } = await selectTroubles(db, 'trouble.assign', which)
  const results = missing.map(({ id, error }) => refused({ id }, error))
  const keys = await keysOf(db, 'trouble.assign', found)
  const work = (tx: Executor, some: readonly TroubleKey[]) => assignTroubles(tx, some, to, by)
  const budget = createLockBudget()
  const refusals = new Map<string, HoldfastError | undefined>()
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const part = keys.slice(from, from + AT_ONCE)
    const { answers, refused } = await operatorCallForMany(db, 'assign', part, work, budget)
    const done = new Set(answers)
    for (const key of part) if (done.has(key.place)) refusals.set(identityOf(key), undefined)
    for (const [key, error] of refused) refusals.set(identityOf(key), error)
  }
  const refusalOf = (one: TroubleReference) => {
    const identity = identityOf(one)
    return refusals.has(identity) ? refusals.get(identity) : notInTrouble(one.model, one, one.id)
  }
  return [...results, ...found.map((one) => resultOf(one, refusalOf(one)))]
}
