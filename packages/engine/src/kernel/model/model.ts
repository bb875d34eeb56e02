import type { Chores } from '../chores/chores.js'
import { databaseUptimeMs } from '../clock/clock.js'
import type { Listener } from '../notify/listener.js'
import type { PauseKind } from '../pausing/pausing.js'
import type { WorkerDefinition } from '../presence/presence.js'
import type { RetryPolicy } from '../retry/retry-policy.js'
import { createWorkLoop, type WorkLoop, type WorkLoopOptions } from '../work/loop.js'
import type { Claimed } from '../work/source.js'
import type { Model } from './handle.js'
import type { Runtime } from './runtime.js'

/** A model as an installation has it: opening an installation and starting a worker go through a list of these. */
export interface InstalledModel {
  readonly name: Model
  /** The housekeeping of its tables. */
  readonly chores: Chores
  /** The domains of what is registered here. */
  readonly domains: () => readonly string[]
  /** Whether a domain, a definition or a handler of this name is registered here. */
  has(kind: PauseKind, name: string): boolean
  /** What a worker does for it. Costs no query. */
  work(worker: WorkerParts): ModelWork
  /** Lets work that runs outside of workers come to its next wait, for at most this long; nothing more begins. */
  readonly drain?: (longestMs: number) => Promise<void>
  /** After all workers have stopped: waits for its own writes, for a bounded time. */
  readonly close: () => Promise<void>
}

/** What one worker does for one model. */
export interface ModelWork {
  /**
   * Creates the loops for what is registered and has none yet, and passes on each when it is created, not started. Called again
   * after it has failed, and when something is registered later.
   */
  grow(loops: NewLoops): Promise<void>
  /** Which definitions and handlers this worker has: noted before it claims any of their work, and once a minute. */
  has?(): readonly WorkerDefinition[]
  /** After each such note. */
  beaten?(): Promise<void>
  /** The worker is about to stop: what runs is finished, and nothing more begins. */
  stopping?(): void
  /** After all loops have stopped. */
  close?(): Promise<void>
}

interface NewLoops {
  /** One that runs code of the user: what it runs counts as in flight. */
  readonly add: (loop: WorkLoop) => void
  /** One that does the engine's own work. */
  readonly addOwn: (loop: WorkLoop) => void
}

/** The settings of a worker. */
export interface WorkerSettings {
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
  /** For commands that do not say these themselves. */
  readonly timeoutMs: number | undefined
  readonly maxAttempts: number
  readonly retry: RetryPolicy
  /** Which steps of workflows it runs: of all handlers that are here, of those of its domains, or none. */
  readonly workflows: 'all' | 'ofDomains' | 'none'
}

export interface WorkerParts {
  readonly settings: WorkerSettings
  /** Read again when something is registered later. */
  readonly domains: () => readonly string[]
  readonly listener: Listener | undefined
  /** A loop with the settings of this worker, where no others are given. */
  readonly loop: <Item extends Claimed>(options: LoopOptions<Item>) => WorkLoop
}

interface LoopOptions<Item extends Claimed>
  extends Pick<WorkLoopOptions<Item>, 'source' | 'run' | 'concurrency' | 'onWake'> {
  /** The notification that wakes it, where `onWake` is not given. */
  readonly topic?: string
  readonly leaseMs?: number
  readonly pollMs?: number
  /** `none` for work that calls no code of the user. Default: the gate of the installation. */
  readonly gate?: 'none'
}

export function createWorkerParts(
  { db, gate: ownGate, logger, metrics }: Runtime,
  settings: WorkerSettings,
  { domains, listener }: Pick<WorkerParts, 'domains' | 'listener'>,
): WorkerParts {
  return {
    settings,
    domains,
    listener,
    loop: ({ topic, leaseMs = settings.leaseMs, pollMs = settings.pollMs, gate = ownGate, ...options }) =>
      createWorkLoop({
        ...(topic !== undefined && listener ? { onWake: (wake) => listener.subscribe(topic, wake) } : {}),
        ...options,
        worker: settings.name,
        leaseMs,
        pollMs,
        gate,
        databaseUptimeMs: () => databaseUptimeMs(db),
        logger,
        metrics,
      }),
  }
}
