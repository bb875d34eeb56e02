import { splitName } from '../../kernel/ids/name.js'
import { finishCycle } from '../queries/finish-cycle.js'
import { readConfig } from '../queries/read-config.js'
import type { ExecutionTarget } from '../targets.js'
import type { Cycle, CycleParts } from './parts.js'
import { recoverStale } from './recover.js'

const SUFFIX = ':checks'
const IDLE_MS = 1_000

/** The cycle that checks the executions of a remote type: a row of its own, because no item type has a colon. */
export const checksOf = (itemType: string): string => itemType + SUFFIX

/** The item type that a cycle of checks belongs to; undefined for a cycle of releases. */
export function typeOfChecks(cycleType: string): string | undefined {
  return cycleType.endsWith(SUFFIX) ? cycleType.slice(0, -SUFFIX.length) : undefined
}

/**
 * Asks a remote target about claims whose start is not on record, and executions that have not been reported for a while.
 * Round follows round for as long as there is something to ask about, so that ends are noticed as fast as the target responds.
 * It runs beside the cycle of releases and under a lease of its own: a target that hangs here stops no release.
 */
export async function runChecks(
  parts: CycleParts,
  cycle: Cycle,
  target: ExecutionTarget<never>,
  mayGoOn: () => boolean,
): Promise<void> {
  const { db, definition, logger, metrics } = parts
  const labels = { model: 'dispatch', ...splitName(definition.name) }
  let problem: string | null = null
  try {
    for (;;) {
      const config = await readConfig(db, definition.name)
      if (!config) break
      const { recovered, full } = await recoverStale(parts, cycle, target, config.maxStaleRecoveryPerCycle)
      metrics.count('dispatch_stale_recovered', labels, recovered)
      if (!full || !mayGoOn()) break
    }
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error)
    logger.warn({ err: error, type: definition.name }, 'checks of remote executions failed; the next ones follow')
  }
  await finishCycle(db, cycle, { intervalMs: 0, restMs: IDLE_MS, error: problem })
}
