import { createWatch, type Executor, type Logger, type Watch } from '../kernel/model/index.js'
import type { Execution } from './execution/execution.js'
import { findNews } from './queries/find-news.js'

/** Tells running executions of this program what has come for them. */
export type LiveExecutions = Watch<Execution>

/**
 * Responses and cancellations reach an execution when it suspends. An execution that runs for longer (a long step beside a
 * wait, a step that should be cancelled) gets them here: on a wake-up, and as often as a worker polls.
 */
export function createLiveExecutions(
  db: Executor,
  { pollMs, logger }: { pollMs: number; logger: Logger },
): LiveExecutions {
  return createWatch<Execution>({
    everyMs: pollMs,
    what: 'what has come for running processes',
    logger,
    async ask(executions, isWatched) {
      const news = await findNews(
        db,
        executions.map(({ item, state }) => ({ id: item.id, heard: state.data.received })),
      )
      for (const execution of executions) {
        const found = news.get(execution.item.id)
        if (found && isWatched(execution)) execution.receive(found)
      }
    },
    // One whose code awaits something for ever would not notice by itself that its lease is lost.
    check(executions) {
      for (const { lease, wakeUp } of executions) if (lease.aborted) wakeUp.fire()
    },
  })
}
