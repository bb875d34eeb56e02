import { hostname } from 'node:os'
import { choreSource, kernelChores, runChore } from './kernel/chores/chores.js'
import { databaseUptimeMs } from './kernel/clock/clock.js'
import type { Database } from './kernel/database/database.js'
import type { Duration } from './kernel/duration/duration.js'
import { newId } from './kernel/ids/id.js'
import type { Logger } from './kernel/logger.js'
import type { Metrics } from './kernel/metrics/metrics.js'
import { startListener } from './kernel/notify/listener.js'
import { booleanOption, checkOptions, durationOption, integerOption, textOption } from './kernel/validation/options.js'
import { createWorkLoop } from './kernel/work/loop.js'

export interface WorkerOptions {
  /** Shown to operators beside what this worker holds; host, process and a random part by default. */
  readonly name?: string
  /** How many items run at once, 4 by default. */
  readonly concurrency?: number
  /** How long a claim lasts without a heartbeat, 30 s by default. A dead worker's work is picked up after it. */
  readonly lease?: Duration
  /** How long an idle worker waits before it looks again by itself, 1 s by default. */
  readonly poll?: Duration
  /** Be woken by LISTEN/NOTIFY (default), or poll only. */
  readonly notify?: boolean
}

export interface Worker {
  readonly name: string
  /** Claims nothing more and waits for what is running; after the timeout (30 s by default) it is abandoned. */
  stop(timeout?: Duration): Promise<{ readonly abandoned: number }>
  /** Aborts what is running and waits for nobody; others carry on when the leases end. */
  stopNow(): void
  readonly isRunning: boolean
  readonly inFlight: number
}

/** Starts the loops of one worker: today the installation's housekeeping; each model adds its own. */
export function startWorker(
  db: Database,
  options: WorkerOptions | undefined,
  { logger, metrics }: { logger: Logger; metrics: Metrics },
): Worker {
  const settings = checkWorkerOptions(options)
  const listener = settings.notify ? startListener(db, { logger }) : undefined
  const loop = createWorkLoop({
    source: choreSource(db, kernelChores),
    run: runChore(db, kernelChores, logger),
    worker: settings.name,
    concurrency: settings.concurrency,
    leaseMs: settings.leaseMs,
    pollMs: settings.pollMs,
    ...(listener ? { onWake: (wake: () => void) => listener.subscribe('chores', wake) } : {}),
    databaseUptimeMs: () => databaseUptimeMs(db),
    logger,
    metrics,
  })
  loop.start()
  return {
    name: settings.name,
    async stop(timeout) {
      const answer = await loop.stop(durationOption('stop', 'timeout', timeout, { default: '30s' }))
      await listener?.close()
      return answer
    },
    stopNow() {
      loop.stopNow()
      void listener?.close()
    },
    get isRunning() {
      return loop.isRunning
    },
    get inFlight() {
      return loop.inFlight
    },
  }
}

function checkWorkerOptions(options: WorkerOptions | undefined) {
  const given = checkOptions('run', options, ['name', 'concurrency', 'lease', 'poll', 'notify'])
  return {
    name: textOption('run', 'name', given.name, {
      max: 200,
      default: `${hostname()}:${process.pid}:${newId().slice(-6)}`,
    }),
    concurrency: integerOption('run', 'concurrency', given.concurrency, { min: 1, max: 100_000, default: 4 }),
    leaseMs: durationOption('run', 'lease', given.lease, { min: '100ms', max: '1d', default: '30s' }),
    pollMs: durationOption('run', 'poll', given.poll, { min: '10ms', max: '1h', default: '1s' }),
    notify: booleanOption('run', 'notify', given.notify, { default: true }),
  }
}
