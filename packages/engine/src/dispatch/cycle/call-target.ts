import { formatDuration } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'
import { callLimited } from '../../kernel/model/index.js'

/** Calls a target with a time limit: a call that hangs is abandoned, and what it returns later is ignored. */
export function callTarget<Answer>(
  what: string,
  timeoutMs: number,
  lost: AbortSignal,
  call: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const late = () => new HoldfastError('HF_TARGET_TIMEOUT', { target: what, limit: formatDuration(timeoutMs) })
  const limits = { limitMs: timeoutMs, graceMs: 0, around: () => [lost], endedBy: lost, late }
  return callLimited(limits, (over) => call(over.signal))
}
