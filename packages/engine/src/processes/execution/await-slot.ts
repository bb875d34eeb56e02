import { setTimeout as sleep } from 'node:timers/promises'
import { formatDuration, LONGEST_TIMER_MS } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'
import { isTransient } from '../../kernel/model/index.js'
import type { Attempted } from './attempted.js'
import type { StepSpec } from './call-spec.js'
import type { Execution } from './execution.js'

/** The delay before the limiter is called again after an error. */
const TROUBLE_DELAY = 1_000

/**
 * Waits for a slot of a rate limit. Undefined when it is there; otherwise the step has not begun, and no attempt is used up.
 * The wait ends at a cancel, at the deadline, when the worker is stopped and when the lease is lost.
 */
export async function awaitSlot(
  execution: Execution,
  { key, maxWaitMs }: NonNullable<StepSpec['rateLimit']>,
): Promise<Attempted | undefined> {
  const turn = turnOf(execution)
  try {
    const slot = await execution.parts.limiter.reserve(key, maxWaitMs, turn.signal)
    if (slot.granted) {
      if (slot.waitMs > 0) await sleep(slot.waitMs, undefined, { signal: turn.signal })
      return undefined
    }
    const { retryAfterMs } = slot
    const error = new HoldfastError('HF_RATE_LIMITED', {
      key,
      maxWait: formatDuration(maxWaitMs),
      retryAfter: retryAfterMs,
    })
    return { notBegun: execution.classify(error), retryAfterMs }
  } catch (error) {
    if (turn.signal.aborted) return { withdrawn: true }
    const failure = execution.classify(error)
    if (isTransient(error) || failure.kind === 'TRANSIENT') return { notBegun: failure, retryAfterMs: TROUBLE_DELAY }
    return { failed: failure, startedAt: execution.now(), outcome: undefined }
  } finally {
    turn.end()
  }
}

/** Fires at whatever ends a wait. Taken off again: what it listens to lives longer than the wait. */
function turnOf(execution: Execution): { readonly signal: AbortSignal; end(): void } {
  const { item, lease, parts } = execution
  const controller = new AbortController()
  const sources = [execution.cancelSignal, execution.cancelCallsSignal, lease.signal, parts.stopSignal]
  const turn = () => controller.abort(new HoldfastError('HF_STOPPED', { what: 'the wait for a slot' }))
  const leftMs = item.deadline === null ? undefined : Math.max(0, item.deadline - execution.now())
  const timer = leftMs === undefined || leftMs > LONGEST_TIMER_MS ? undefined : setTimeout(turn, Math.ceil(leftMs))
  for (const source of sources) {
    if (source?.aborted) turn()
    else source?.addEventListener('abort', turn)
  }
  return {
    signal: controller.signal,
    end() {
      clearTimeout(timer)
      for (const source of sources) source?.removeEventListener('abort', turn)
    },
  }
}
