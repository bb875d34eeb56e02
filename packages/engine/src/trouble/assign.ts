import type { By } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import {
  createLockBudget,
  type LockBudget,
  lockedByOther,
  operatorCallForMany,
} from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { type BulkResult, notInTrouble } from '../kernel/model/bulk.js'
import { refused, resultOf } from './operate.js'
import { assignTroubles } from './queries/assign-trouble.js'
import type { TroubleKey } from './queries/find-trouble.js'
import { identityOf, keysOf, selectTroubles, type TroubleReference } from './select.js'

const AT_ONCE = 200

/** Assigns the selected work to a person; `null` removes the assignment. */
export async function assign(db: Database, which: unknown, by: By, to: string | null): Promise<BulkResult[]> {
  const { found, missing } = await selectTroubles(db, 'trouble.assign', which)
  const results = missing.map(({ id, error }) => refused({ id }, error))
  const budget = createLockBudget()
  for (let from = 0; from < found.length; from += AT_ONCE) {
    const part = found.slice(from, from + AT_ONCE)
    try {
      results.push(...(await assignPart(db, part, by, to, budget)))
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
      results.push(...part.map((one) => resultOf(one, error)))
    }
  }
  return results
}

async function assignPart(
  db: Database,
  part: readonly TroubleReference[],
  by: By,
  to: string | null,
  budget: LockBudget,
) {
  const keys = new Map((await keysOf(db, part)).map((key) => [identityOf(key), key]))
  const asked = [...keys.values()]
  const work = (tx: Executor, some: readonly TroubleKey[]) => assignTroubles(tx, some, to, by)
  const { answers, busy } = await operatorCallForMany(db, 'assign', asked, work, budget)
  const done = new Set(answers)
  return part.map((one) => {
    const key = keys.get(identityOf(one))
    if (key && done.has(key.place)) return resultOf(one, undefined)
    if (key && busy.includes(key)) return resultOf(one, lockedByOther(`assign ${one.id}`))
    return resultOf(one, notInTrouble(one.model, one, one.id))
  })
}
