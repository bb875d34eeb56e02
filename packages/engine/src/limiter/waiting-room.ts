import { HoldfastError } from '../kernel/errors.js'

/** Where those wait whose slot is still to come. */
export interface WaitingRoom {
  /** Resolves when so long has passed by this process's monotonic clock, never sooner. */
  wait(milliseconds: number, signal?: AbortSignal): Promise<void>
  /** Sends everybody away with HF_STOPPED. */
  close(): void
}

/**
 * The clocks of two machines may run at different speeds, each wrong by half a thousandth at most (what NTP corrects by):
 * so much longer is waited that a slot is not used before the database's clock has come to it.
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
          waiting.delete(sendAway)
          signal?.removeEventListener('abort', onAbort)
          settle()
        }
        const sendAway = (reason: unknown) => leave(() => reject(reason))
        const onAbort = () => sendAway(signal?.reason)
        // Timers may fire a little early.
        const look = () => {
          const left = until - performance.now()
          if (left <= 0) leave(resolve)
          else timer = setTimeout(look, Math.ceil(left))
        }
        if (signal?.aborted) return reject(signal.reason)
        waiting.add(sendAway)
        signal?.addEventListener('abort', onAbort)
        look()
      })
    },
    close() {
      for (const sendAway of waiting) sendAway(new HoldfastError('HF_STOPPED', { what: 'the rate limiter' }))
    },
  }
}
