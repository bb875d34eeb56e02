import type { Executor } from '../kernel/database/executor.js'
import type { Logger } from '../kernel/logger.js'
import type { Execution } from './execution/execution.js'
import { findNews } from './queries/find-news.js'

/** The executions of this program, told of what comes for them while they run. */
export interface LiveExecutions {
  join(execution: Execution): () => void
  /** Something may have come for one of them. */
  look(): void
  close(): void
}

/**
 * Responses and cancellations reach an execution when it wants to rest. One that runs for longer (a long step beside a
 * wait, a step that should be cancelled) is looked after here: upon a wake-up, and as often as a worker polls. One
 * statement asks for all of them.
 */
export function createLiveExecutions(
  db: Executor,
  { pollMs, logger }: { pollMs: number; logger: Logger },
): LiveExecutions {
  const live = new Set<Execution>()
  let timer: NodeJS.Timeout | undefined
  let looking = false
  let again = false

  async function lookNow(): Promise<void> {
    if (live.size === 0) return
    if (looking) {
      again = true
      return
    }
    looking = true
    try {
      const asked = [...live]
      const news = await findNews(
        db,
        asked.map(({ item, state }) => ({ id: item.id, heard: state.received })),
      )
      for (const execution of asked) {
        const found = news.get(execution.item.id)
        if (found && live.has(execution)) execution.receive(found)
      }
    } catch (error) {
      logger.debug({ err: error }, 'could not look for news of running processes; looking again')
    } finally {
      looking = false
      if (again) {
        again = false
        void lookNow()
      }
    }
  }

  /** One whose code awaits something for ever would not notice by itself that its lease is lost. */
  function dropLost(): void {
    for (const { lease, wakeUp } of live) if (lease.aborted) wakeUp.fire()
  }

  return {
    join(execution) {
      live.add(execution)
      // Most executions are over before the first look.
      timer ??= setInterval(() => {
        dropLost()
        if (live.size > 0) return void lookNow()
        clearInterval(timer)
        timer = undefined
      }, pollMs).unref()
      return () => live.delete(execution)
    },
    look: () => void lookNow(),
    close() {
      clearInterval(timer)
      dropLost()
    },
  }
}
