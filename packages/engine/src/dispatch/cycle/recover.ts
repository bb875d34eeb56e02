import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { describe } from '../../kernel/validation/describe.js'
import { applyChecks, type Finding, findDueChecks, type ItemToCheck } from '../queries/check-items.js'
import type { ExecutionTarget } from '../targets.js'
import { callTarget } from './call-target.js'
import type { Cycle, CycleParts } from './parts.js'

/** How many calls of `describe` run at the same time, each for a bounded number of executions. */
const CALLS = 4

/**
 * One round: asks the target about claims whose start is not on record, and about executions that have not been reported for a
 * while. Only an execution that the target does not know is started again. Our own engine needs none of this: an item
 * and its execution change in one transaction. Returns how many were recovered, and whether there may be more to check.
 */
export async function recoverStale(
  parts: CycleParts,
  cycle: Cycle,
  target: ExecutionTarget<never>,
  mostPerCall: number,
): Promise<{ readonly recovered: number; readonly full: boolean }> {
  const itemType = parts.definition.name
  const items = await findDueChecks(parts.db, itemType)
  const chunks = Array.from({ length: Math.ceil(items.length / mostPerCall) }, (_, nth) =>
    items.slice(nth * mostPerCall, (nth + 1) * mostPerCall),
  )
  const recovered = await Promise.all(
    chunks.map(async (chunk) => {
      const states = await describeAll(parts, cycle, target, chunk)
      const findings = chunk.map((item, place) => findingOf(item, states[place]))
      return (await applyChecks(parts.db, itemType, findings)).recovered
    }),
  )
  return { recovered: recovered.reduce((sum, count) => sum + count, 0), full: items.length === CALLS * mostPerCall }
}

async function describeAll(
  { definition, logger }: CycleParts,
  cycle: Cycle,
  target: ExecutionTarget<never>,
  items: readonly ItemToCheck[],
): Promise<readonly unknown[]> {
  const ids = items.map(({ executionId }) => executionId)
  try {
    const states: unknown = await callTarget(target.name, definition.callTimeoutMs, cycle.signal, (signal) =>
      target.describe(ids, { signal }),
    )
    if (Array.isArray(states) && states.length === ids.length) return states
    const problem = `answered ${describe(states)} about ${ids.length} executions`
    throw new HoldfastError('HF_TARGET_INVALID_RESULT', { target: target.name, problem })
  } catch (error) {
    logger.warn(
      { err: error, type: definition.name, items: ids.length },
      'a target could not say where executions stand',
    )
    return []
  }
}

/** The response of a target, with the names of the table. */
export const FOUND = {
  NOT_FOUND: 'NOT_FOUND',
  RUNNING: 'RUNNING',
  COMPLETED: 'COMPLETED',
  FAILED: 'RETRY',
  CANCELLED: 'FAILED',
  UNKNOWN: 'UNKNOWN',
} as const

function findingOf({ itemId: id, executionId: execution }: ItemToCheck, state: unknown): Finding {
  const status = typeof state === 'object' && state !== null && 'status' in state ? state.status : undefined
  const found = typeof status === 'string' && status in FOUND ? FOUND[status as keyof typeof FOUND] : 'UNKNOWN'
  if (found !== 'RETRY' && found !== 'FAILED') return { id, execution, found }
  const error = typeof state === 'object' && state !== null && 'error' in state ? state.error : undefined
  return { id, execution, found, ...failureOfEnd(String(status), error) }
}

/** The recorded failure of an execution: the one that the target reports, or a general one. */
export function failureOfEnd(status: string, error: unknown): { readonly code: string; readonly message: string } {
  if (error === undefined) return { code: status, message: `the execution ended ${status}` }
  const { code, message } = classifyFailure(error, { unknown: 'transient' })
  return { code, message }
}
