import type { Executor } from '../database/executor.js'
import type { Logger } from '../logger.js'
import type { Model } from '../models.js'
import { createBackoff } from '../retry/backoff.js'
import { createSignal } from '../work/signal.js'

/** A definition or a handler that a worker has. */
export interface WorkerDefinition {
  readonly model: Model
  /** `domain/type`, or the name of a handler of workflow steps. */
  readonly name: string
  /** Default: 0, there are no versions. */
  readonly version?: number
  /** How long this worker leases its work for. */
  readonly leaseMs?: number
}

/**
 * Records, when a worker starts, every minute, and when something is registered later, which definitions and handlers it has,
 * and that it is alive. Code that acts on absence (a type that no worker handles) calls `holdfast.absence_counts()`, which is
 * false until every live worker has had a heartbeat after an outage.
 */
export interface Presence {
  /** The first heartbeat, before anything is claimed; throws if it cannot be written. */
  begin(): Promise<void>
  /** Something was registered: the next heartbeat comes soon. */
  changed(): void
  stop(): void
  /** After `stop`: the worker has ended in order and counts as gone from now on. A failure is logged and changes nothing. */
  end(): Promise<void>
}

const EVERY = 60_000

interface Options {
  readonly worker: string
  readonly has: () => readonly WorkerDefinition[]
  /** What models do with every heartbeat. */
  readonly beaten?: () => Promise<void>
  readonly everyMs?: number
  readonly logger: Logger
}

export function createPresence(db: Executor, { worker, has, beaten, everyMs = EVERY, logger }: Options): Presence {
  const wake = createSignal()
  // A failed heartbeat is repeated soon: after an outage other workers wait for it.
  const backoff = createBackoff({ base: 250, cap: 15_000 })
  let running = false

  async function beat(): Promise<void> {
    const rows = has().map(({ model, name, version = 0, leaseMs = null }) => ({
      model,
      name,
      version,
      lease_ms: leaseMs,
    }))
    await db.run(noteStatement, [worker, JSON.stringify(rows)])
    await beaten?.()
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
        logger.warn({ err: error }, 'could not record the definitions of this worker; trying again')
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
    async end() {
      try {
        await db.run(stoppedStatement, [worker])
      } catch (error) {
        logger.debug({ err: error }, 'could not record that this worker has stopped; it counts as live for two minutes')
      }
    },
  }
}

const stoppedStatement = { name: 'presence.stopped', text: 'select holdfast.note_worker_stopped($1)' }
const noteStatement = { name: 'presence.note', text: 'select holdfast.note_worker($1, $2::text::jsonb)' }
