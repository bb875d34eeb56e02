import { codeOf, isTransient } from '../../kernel/database/transient.js'
import { TransientError } from '../../kernel/failure/failure-errors.js'
import type { Attempted } from './attempted.js'
import type { Execution } from './execution.js'

const TRY_AGAIN_AFTER = 1_000

/** What a statement's own time limits end will take as long the next time: that is the call's own failure. */
const OWN_LIMITS = new Set(['57014', '55P03'])

/**
 * Our own database was in trouble and nothing was applied (K-11): that says nothing of the call, so it uses no attempt
 * up and is made again when the database is back. Undefined for every other error.
 */
export function outOfReach(execution: Execution, error: unknown): Attempted | undefined {
  if (!isTransient(error) || OWN_LIMITS.has(codeOf(error))) return undefined
  const trouble = new TransientError(error instanceof Error ? error.message : String(error), {
    code: 'DATABASE_TROUBLE',
    cause: error,
  })
  return { refused: execution.classify(trouble), retryAfterMs: TRY_AGAIN_AFTER }
}
