import { HoldfastError } from '../kernel/errors.js'

/** The callers that wait for the time of their slot. */
export interface WaitingRoom {
  /** Resolves after this many milliseconds of this process's monotonic clock, never sooner. */
  wait(milliseconds: number, signal?: AbortSignal): Promise<void>
  /** Rejects all waits with HF_STOPPED. */
  close(): void
}

/**
 * The clocks of two machines may run at different speeds, each wrong by at most half a thousandth (the limit of NTP). Waits
 * are longer by this share, so that a slot is not used before its time by the database's clock.
 */
const DRIFT = 0.001

export function createWaitingRoom(): WaitingRoom {
  const waiting = new Set<(reason: unknown) => void>()
  return {
    wait(milliseconds, signal) {
      const until = performance.now() + milliseconds * (1 + DRIFT)
      return new Promise((resolve, reject) => {
        let timer: NodeJS.Timeout
        const leave = (settle: () => void) => {
          clearTimeout(timer)
          waiting.delete(refuse)
          signal?.removeEventListener('abort', onAbort)
          settle()
        }
        const refuse = (reason: unknown) => leave(() => reject(reason))
        const onAbort = () => refuse(signal?.reason)
        // Timers may fire a little early.
        const check = () => {
          const left = until - performance.now()
          if (left <= 0) leave(resolve)
          else timer = setTimeout(check, Math.ceil(left))
        }
        if (signal?.aborted) return reject(signal.reason)
        waiting.add(refuse)
        signal?.addEventListener('abort', onAbort)
        check()
      })
    },
    close() {
      for (const refuse of waiting) refuse(new HoldfastError('HF_STOPPED', { what: 'the rate limiter' }))
    },
  }
}
