import { formatDuration } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'

/** Calls a target, for so long and no longer: one that hangs is left to itself, and what it says later is not heard. */
export async function callTarget<Answer>(
  what: string,
  timeoutMs: number,
  lost: AbortSignal,
  call: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const controller = new AbortController()
  const { signal } = controller
  let onLost: (() => void) | undefined
  let timer: NodeJS.Timeout | undefined
  const given = new Promise<never>((_, reject) => {
    const giveUp = (reason: unknown) => {
      controller.abort(reason)
      reject(reason)
    }
    onLost = () => giveUp(lost.reason)
    if (lost.aborted) onLost()
    lost.addEventListener('abort', onLost)
    const limit = formatDuration(timeoutMs)
    timer = setTimeout(() => giveUp(new HoldfastError('HF_TARGET_TIMEOUT', { target: what, limit })), timeoutMs)
  })
  try {
    return await Promise.race([call(signal), given])
  } finally {
    clearTimeout(timer)
    if (onLost) lost.removeEventListener('abort', onLost)
  }
}
