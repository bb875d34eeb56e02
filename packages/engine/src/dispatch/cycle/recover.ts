import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { describe } from '../../kernel/validation/describe.js'
import { applyChecks, type Finding, findDueChecks, type ItemToCheck } from '../queries/check-items.js'
import type { ExecutionTarget } from '../targets.js'
import { callTarget } from './call-target.js'
import type { Cycle, CycleParts } from './parts.js'

/**
 * Looks what became of claims that nobody recorded, and of executions that have not been heard of for a while (D-13).
 * Careful: only what the engine says it does not know is started again. Our own engine needs none of this: an item and its
 * execution change in one transaction. Answers how many were recovered.
 */
export async function recoverStale(parts: CycleParts, cycle: Cycle, target: ExecutionTarget<never>): Promise<number> {
  const items = await findDueChecks(parts.db, cycle.type)
  if (items.length === 0) return 0
  const states = await describeAll(parts, cycle, target, items)
  const findings = items.map((item, place) => findingOf(item, states[place]))
  const { recovered } = await applyChecks(parts.db, cycle.type, findings)
  return recovered
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
    throw new HoldfastError('HF_TARGET_NONSENSE', { target: target.name, problem })
  } catch (error) {
    logger.warn({ err: error, type: cycle.type, items: ids.length }, 'a target could not say where executions stand')
    return []
  }
}

const FOUND = {
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
  const { code, message } =
    error === undefined
      ? { code: String(status), message: `the execution ended ${String(status)}` }
      : classifyFailure(error, { unknown: 'transient' })
  return { id, execution, found, code, message }
}
