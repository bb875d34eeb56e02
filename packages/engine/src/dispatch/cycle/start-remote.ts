import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { newId } from '../../kernel/ids/id.js'
import { outcomeOfFailure } from '../../kernel/model/index.js'
import { describe } from '../../kernel/validation/describe.js'
import { parseWith } from '../../kernel/validation/schema.js'
import { type ClaimedItem, claimItems, recordStarts, type StartFailure } from '../queries/claim-items.js'
import type { DispatchConfig } from '../queries/read-config.js'
import type { ExecutionStart, ExecutionTarget, StartOutcome } from '../targets.js'
import { callTarget } from './call-target.js'
import type { Grant } from './grant.js'
import type { BatchOutcome, Cycle, CycleParts } from './parts.js'

/** Releases a batch to a remote target: claimed in one transaction, started, recorded in another. */
export async function startRemotely(
  parts: CycleParts,
  cycle: Cycle,
  target: ExecutionTarget<never>,
  config: DispatchConfig,
  grant: Grant,
): Promise<BatchOutcome> {
  const { db, marks } = parts
  const batch = newId()
  const began = performance.now()
  const from = marks.from(began)
  const claimed = await claimItems(
    db,
    { type: cycle.type, epoch: cycle.epoch, batch, most: grant.most },
    from,
    grant.slots,
  )
  marks.learned(claimed.mark, { full: from === undefined, began, ended: performance.now() })
  if (claimed.outcome !== 'claimed') return { outcome: claimed.outcome, claimed: 0, started: 0, failed: 0, full: false }
  if (claimed.claimed === 0) return { outcome: 'released', claimed: 0, started: 0, failed: 0, full: false }

  const { starts, failures } = await openContexts(parts, claimed.items, config)
  const outcomes = starts.length === 0 ? [] : await startAll(parts, cycle, target, starts)
  const started: string[] = []
  for (const [place, { key }] of starts.entries()) {
    const failure = failureOf(target, outcomes[place])
    if (failure) failures.push({ id: key, ...failure })
    else started.push(key)
  }
  const recorded = await recordStarts(db, { type: cycle.type, batch, started, failures, claimed: claimed.claimed })
  const failed = failures.length + claimed.missing
  return {
    outcome: 'released',
    claimed: claimed.claimed,
    started: recorded.started,
    failed,
    full: claimed.full,
    tripped: recorded.tripped,
  }
}

/** A context that cannot be read fails its item, not the batch. */
async function openContexts({ codec, definition }: CycleParts, items: readonly ClaimedItem[], config: DispatchConfig) {
  const starts: ExecutionStart<never>[] = []
  const failures: StartFailure[] = []
  for (const item of items) {
    const { itemId: key, executionId, contextVersion, initWorkflowId, startAtMs, startDelayMs } = item
    try {
      // What came through SQL is plain.
      const decoded = item.checked ? codec.decode({ json: item.context, notes: item.notes }) : item.context
      const fits = item.checked && contextVersion === definition.version
      const where = `dispatch ${definition.name}: ${key}`
      // The target's type says what the schema makes.
      const context = (fits ? decoded : await parseWith(definition.contextSchema, decoded, where)) as never
      starts.push({
        key,
        executionId,
        context,
        contextVersion,
        initWorkflowId,
        startAt: new Date(startAtMs),
        startDelay: startDelayMs,
        workflowType: config.execWorkflowType,
        taskQueue: config.execTaskQueue,
      })
    } catch (error) {
      const { message } = classifyFailure(error, { unknown: 'permanent' })
      failures.push({ id: key, code: 'CONTEXT_BROKEN', message })
    }
  }
  return { starts, failures }
}

/** A target that throws, takes too long or returns something unexpected may have started any of them. */
async function startAll(
  { definition }: CycleParts,
  cycle: Cycle,
  target: ExecutionTarget<never>,
  starts: readonly ExecutionStart<never>[],
): Promise<readonly unknown[]> {
  try {
    const outcomes: unknown = await callTarget(target.name, definition.callTimeoutMs, cycle.signal, (signal) =>
      target.start(starts, { signal }),
    )
    if (Array.isArray(outcomes) && outcomes.length === starts.length) return outcomes
    const problem = `answered ${describe(outcomes)} to the start of ${starts.length} items`
    throw new HoldfastError('HF_TARGET_INVALID_RESULT', { target: target.name, problem })
  } catch (error) {
    return starts.map((): StartOutcome => ({ failed: error }))
  }
}

/**
 * Why an item was not started. Only an error that says so itself is proof that nothing was started; after any other
 * the target is asked about the execution before it is started again.
 */
function failureOf(target: ExecutionTarget<never>, outcome: unknown): Omit<StartFailure, 'id'> | undefined {
  if (outcome === 'started' || outcome === 'alreadyStarted') return undefined
  const failed =
    typeof outcome === 'object' && outcome !== null && 'failed' in outcome
      ? outcome.failed
      : new HoldfastError('HF_TARGET_INVALID_RESULT', {
          target: target.name,
          problem: `answered ${describe(outcome)} to a start`,
        })
  const failure = classifyFailure(failed, { unknown: 'transient' })
  const { code, message } = failure
  return { code, message, unknown: outcomeOfFailure(failure) === 'unknown' }
}
