// What the end of an attempt makes of its call: completed, tried again, thrown into user code, or a failure of the
// process. It goes on record and takes effect. No I/O: `drive.ts` calls it for one attempt after the other.

import type { Failure } from '../../kernel/failure/classify.js'
import { normalizeRetryPolicy } from '../../kernel/retry/retry-policy.js'
import { apply, type Effect } from './apply.js'
import type { Arrival, FailedAttempt } from './attempted.js'
import type { Attempts } from './call-spec.js'
import type { Call } from './calls.js'
import { decideFailedCall, toRecorded } from './decisions.js'
import type { Execution } from './execution.js'
import { isOver } from './state.js'

/** Records the end of an attempt and lets it take effect. */
export function absorb(execution: Execution, { call, attempted }: Arrival): Effect {
  if ('begun' in attempted) return execution.apply({ kind: 'UNDER_WAY', call })
  if ('withdrawn' in attempted) return execution.apply({ kind: 'WITHDRAW', call })
  if ('recorded' in attempted) return apply(execution.state, attempted.recorded.event, attempted.recorded.encodedResult)
  if ('done' in attempted) {
    const detail = detailOf(call, attempted.startedAt)
    return execution.recordCall(call, { status: 'COMPLETED', attempt: call.attempts + 1, detail }, attempted.done)
  }
  if ('failed' in attempted) return fail(execution, call, attempted)
  // No slot in time, or no database: tried again later, and no attempt is used up.
  const { notBegun, retryAfterMs, outcome } = attempted
  return execution.recordCall(call, {
    status: 'WAITING_RETRY',
    attempt: call.attempts,
    nextAt: Math.ceil(execution.now() + retryAfterMs),
    detail: { error: toRecorded(notBegun), ...(outcome ? { outcome } : {}) },
  })
}

/** For calls that are never made again: commands and children. */
const ONCE: Attempts = { maxAttempts: 1, policy: normalizeRetryPolicy([]) }

function fail(execution: Execution, call: Call, { failed, startedAt, outcome, unanswered }: FailedAttempt): Effect {
  const { spec } = call
  const attempt = call.attempts + (outcome === undefined ? 0 : 1)
  const retry = 'retry' in spec ? spec.retry : ONCE
  const onFailure = 'onFailure' in spec && !unanswered ? spec.onFailure : 'tsq'
  // The loser of a race, say: it is not retried. If its outcome is unknown, an operator must settle it all the same.
  const over = isOver(execution.state) && !unanswered
  const decision = decideFailedCall(failed, { attempts: over ? retry.maxAttempts : attempt, retry, onFailure })
  const isFinal = decision.status === 'FAILED'
  if (over && isFinal && !decision.thrown) warnOfLate(execution, call, failed)
  return execution.recordCall(call, {
    status: decision.status,
    attempt,
    ...(isFinal ? {} : { nextAt: Math.floor(execution.now() + decision.delayMs) }),
    detail: {
      startedAt: Math.floor(startedAt),
      maxAttempts: retry.maxAttempts,
      error: toRecorded(failed),
      ...(outcome ? { outcome } : {}),
      ...(unanswered?.noInquire ? { noInquire: true } : {}),
      ...(isFinal && decision.thrown ? { thrown: true } : {}),
      ...(over ? { afterEnd: true } : {}),
    },
  })
}

function warnOfLate({ item, parts }: Execution, call: Call, { code, message }: Failure): void {
  const about = { id: item.id, type: item.type, call: call.id, code, problem: message }
  parts.logger.warn(about, 'a call failed after `execute` had ended, which stands')
}

function detailOf({ spec }: Call, startedAt: number) {
  return {
    startedAt: Math.floor(startedAt),
    ...('retry' in spec && spec.retry.maxAttempts > 1 ? { maxAttempts: spec.retry.maxAttempts } : {}),
    ...('request' in spec && spec.request !== undefined ? { request: spec.request } : {}),
  }
}
