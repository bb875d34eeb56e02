import type { Executor } from '../database/executor.js'
import type { Logger } from '../logger.js'
import { createBackoff } from '../retry/backoff.js'
import { createSignal } from '../work/signal.js'

/**
 * Says, when a worker starts, every minute, and when something is registered later, which definitions and handlers it has,
 * and then that it lives. What acts on absence (a type that no worker handles) asks `holdfast.absence_counts()`, which is
 * false until every worker that lives has had a beat after a standstill.
 */
export interface Presence {
  /** The first beat, before anything is claimed; throws where the database does not take it. */
  begin(): Promise<void>
  /** Something was registered: beats soon. */
  changed(): void
  stop(): void
}

const EVERY = 60_000

interface Options {
  /** Writes down what the worker has, model by model. */
  readonly note: () => Promise<void>
  readonly everyMs?: number
  readonly logger: Logger
}

export function createPresence(db: Executor, { note, everyMs = EVERY, logger }: Options): Presence {
  const wake = createSignal()
  // A beat that failed is tried again soon: after an outage others wait for it.
  const backoff = createBackoff({ base: 250, cap: 15_000 })
  let running = false

  async function beat(): Promise<void> {
    await note()
    await db.run(beatStatement)
  }

  async function keepBeating(): Promise<void> {
    let pause = everyMs
    while (running) {
      await wake.wait(pause)
      if (!running) return
      try {
        await beat()
        backoff.reset()
        pause = everyMs
      } catch (error) {
        logger.warn({ err: error }, 'could not note what this worker has; trying again')
        pause = Math.min(backoff.next(), everyMs)
      }
    }
  }

  return {
    async begin() {
      await beat()
      if (running) return
      running = true
      void keepBeating()
    },
    changed: () => wake.fire(),
    stop() {
      running = false
      wake.fire()
    },
  }
}

const beatStatement = { name: 'presence.beat', text: 'select holdfast.note_beat()' }
