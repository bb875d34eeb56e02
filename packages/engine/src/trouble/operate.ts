import { HoldfastError } from '../kernel/errors.js'
import {
  type BulkCall,
  type BulkOperator,
  type BulkResult,
  createLockBudget,
  type Database,
  type LockBudget,
  type Model,
} from '../kernel/model/index.js'
import { grouped, selectTroubles, type TroubleReference } from './select.js'

export type BulkOperators = Readonly<Record<Model, BulkOperator>>

/**
 * Applies an operation to everything that was selected: by definition, in parts that one operator call can do in time. What is
 * true of a whole part (its commit may be lost, the result does not fit) is returned for each in it. Once the database is unreachable nothing more is
 * tried: each part would wait five seconds to learn the same.
 */
export async function operateTroubles(
  db: Database,
  operators: BulkOperators,
  call: BulkCall,
  which: unknown,
): Promise<BulkResult[]> {
  const { found, missing } = await selectTroubles(db, `trouble.${call.verb}`, which)
  const results = missing.map(({ id, error }) => refused({ id }, error))
  const budget = createLockBudget()
  let away: HoldfastError | undefined
  for (const part of partsOf(operators, found)) {
    const refusals = away ? part.map(() => away) : await operatePart(operators, call, part, budget)
    away ??= refusals.find((refusal) => refusal?.code === 'HF_DATABASE_UNAVAILABLE')
    results.push(...part.map((one, place) => resultOf(one, refusals[place])))
  }
  return results
}

async function operatePart(
  operators: BulkOperators,
  call: BulkCall,
  part: readonly TroubleReference[],
  budget: LockBudget,
) {
  const [first] = part
  if (!first) return []
  try {
    return await operators[first.model].operate(call, first, part, budget)
  } catch (error) {
    if (error instanceof HoldfastError) return part.map(() => error)
    throw error
  }
}

function partsOf(operators: BulkOperators, found: readonly TroubleReference[]): TroubleReference[][] {
  const groups = grouped(found, ({ model, domain, type }) => JSON.stringify([model, domain, type]))
  return [...groups.values()].flatMap((group) => {
    const atOnce = group[0] ? operators[group[0].model].atOnce : 1
    const count = Math.ceil(group.length / atOnce)
    return Array.from({ length: count }, (_, n) => group.slice(n * atOnce, (n + 1) * atOnce))
  })
}

export function resultOf(
  { model, domain, type, id, step, failureId }: TroubleReference,
  refusal: HoldfastError | undefined,
): BulkResult {
  const what = { model, domain, type, id, ...(step === null ? {} : { step }), failureId }
  return refusal ? refused(what, refusal) : { ...what, outcome: 'done' }
}

export const refused = (
  what: Omit<BulkResult, 'outcome' | 'code' | 'message'>,
  { code, message }: HoldfastError,
): BulkResult => ({ ...what, outcome: 'refused', code, message })
