import type { Logger } from '../logger.js'
import { createBackoff } from '../retry/backoff.js'
import { createSignal } from './signal.js'

interface HeartbeatOptions {
  readonly everyMs: number
  /** Extends the leases. Returns how many rows were skipped because another transaction has locked them. */
  readonly beat: () => Promise<{ readonly skipped: number }>
  /** A heartbeat failed or came too late: leases may have ended. */
  readonly failed: () => void
  readonly logger: Logger
}

export interface Heartbeat {
  /** A whole lease has passed without a heartbeat: this process, or the database, stalled, and leases may have ended. */
  isLate(): boolean
  stop(): void
}

/** A heartbeat at every third of the lease; sooner after rows were skipped because they were locked, or after a failure. */
export function startHeartbeat({ everyMs, beat, failed, logger }: HeartbeatOptions): Heartbeat {
  const stopped = createSignal()
  const backoff = createBackoff({ base: Math.min(50, everyMs / 10), cap: everyMs / 2 })
  let running = true
  let dueAt = performance.now() + everyMs
  const isLate = () => performance.now() - dueAt > 2 * everyMs

  async function run(): Promise<void> {
    let pause = everyMs
    while (running) {
      await stopped.wait(pause)
      if (!running) return
      if (isLate()) failed()
      const began = performance.now()
      try {
        const { skipped } = await beat()
        backoff.reset()
        pause = Math.max(0, (skipped > 0 ? everyMs / 4 : everyMs) - (performance.now() - began))
      } catch (error) {
        logger.warn({ err: error }, 'heartbeat failed; trying again')
        failed()
        pause = backoff.next()
      }
      dueAt = performance.now() + pause
    }
  }

  void run()
  return {
    isLate,
    stop() {
      running = false
      stopped.fire()
    },
  }
}
