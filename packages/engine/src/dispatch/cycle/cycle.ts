import { splitName } from '../../kernel/ids/name.js'
import { findNewestDeadLetters, finishCycle } from '../queries/finish-cycle.js'
import type { DispatchConfig } from '../queries/read-config.js'
import { readConfig } from '../queries/read-config.js'
import { isOwn } from '../targets.js'
import { type Grant, grantSlots } from './grant.js'
import type { BatchOutcome, Cycle, CycleParts } from './parts.js'
import { releaseBatch } from './release.js'
import { startRemotely } from './start-remote.js'

/** While nothing is due, or the kill switch is on. */
const IDLE_MS = 1_000
/** While our engine has not begun what it was given. */
const AHEAD_MS = 20

/**
 * One cycle: read the configuration, ask the rate limit, release a batch, record. With an interval of 0 batch follows
 * batch under the same lease for as long as they are full. After a failure the next cycle comes: the items are as they
 * were. Stale claims are recovered in a cycle of their own (checks.ts).
 */
export async function runCycle(parts: CycleParts, cycle: Cycle, mayGoOn: () => boolean): Promise<void> {
  const { db, metrics, logger } = parts
  const what = { model: 'dispatch', ...splitName(cycle.type) } as const
  const labels = what
  let intervalMs = IDLE_MS
  let restMs = IDLE_MS
  let problem: string | null = null
  try {
    for (;;) {
      const began = performance.now()
      const config = await readConfig(db, cycle.type)
      if (config) intervalMs = config.dispatchInterval
      if (!config?.enabled || config.tripped) break
      const { grant, batch } = await runBatch(parts, cycle, config)
      metrics.observe('dispatch_cycle_milliseconds', labels, performance.now() - began)
      if (batch.outcome === 'lost') return
      restMs = restAfter(batch, grant)
      if (restMs > 0 || intervalMs > 0 || !mayGoOn()) break
    }
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error)
    logger.warn({ err: error, type: cycle.type }, 'a cycle of dispatch failed; the next one tries again')
  }
  const dead = await finishCycle(db, cycle, { intervalMs, restMs, error: problem })
  if (!dead) return
  metrics.count('dispatch_dead_letters', labels, dead)
  for (const { itemId: id, code, message, attempt } of await findNewestDeadLetters(db, cycle.type, dead)) {
    parts.reports.needsPerson({ ...what, id, attempt }, { code, message })
  }
}

async function runBatch(
  parts: CycleParts,
  cycle: Cycle,
  config: DispatchConfig,
): Promise<{ readonly grant: Grant; readonly batch: BatchOutcome }> {
  const { metrics, definition } = parts
  const { target } = definition
  const labels = { model: 'dispatch', ...splitName(cycle.type) } as const
  const grant = await grantSlots(parts, config)
  if (grant.most === 0) return { grant, batch: nothing }
  const batch = isOwn(target)
    ? await releaseBatch(parts, cycle, target, config, grant)
    : await startRemotely(parts, cycle, target, config, grant)
  metrics.count('dispatch_claimed', labels, batch.claimed)
  metrics.count('dispatch_started', labels, batch.started)
  metrics.count('dispatch_start_failures', labels, batch.failed)
  if (batch.tripped) {
    metrics.count('dispatch_tripped', labels)
    const failure = { code: 'DISPATCH_TRIPPED', message: `the window has stopped: ${batch.tripped}` }
    parts.reports.needsPerson({ ...labels, id: cycle.type }, failure)
  }
  return { grant, batch }
}

const nothing: BatchOutcome = { outcome: 'released', claimed: 0, started: 0, failed: 0, full: false }

function restAfter(batch: BatchOutcome, grant: Grant): number {
  if (grant.retryAfterMs > 0) return Math.min(grant.retryAfterMs, IDLE_MS)
  if (batch.outcome === 'ahead') return AHEAD_MS
  return batch.full ? 0 : IDLE_MS
}
