import { createCodec } from './kernel/codec/codec.js'
import { guardedCodec } from './kernel/codec/guarded-codec.js'
import type { Database } from './kernel/database/database.js'
import { GIVE_UP_AFTER } from './kernel/database/retrying.js'
import { guardedMetrics } from './kernel/guarded-sinks.js'
import { type Logger, silentLogger } from './kernel/logger.js'
import { noMetrics } from './kernel/metrics/metrics.js'
import type { Runtime } from './kernel/model/runtime.js'
import { startListener } from './kernel/notify/listener.js'
import { createReports } from './kernel/reports/reports.js'
import { createMissingWorkers } from './kernel/results/presence.js'
import { createResults } from './kernel/results/results.js'
import { type Gate, processGate } from './kernel/work/alone.js'
import { createLimiter } from './limiter/index.js'
import { type HoldfastOptions, patience } from './options.js'
import { workerName } from './worker.js'

export interface RuntimeOptions extends Pick<HoldfastOptions, 'codec' | 'metrics' | 'abortGrace' | 'inquireFor'> {
  readonly logger?: Logger
  /** `unregistered`: for tests of executions; processes run in their starter though no worker of this program is to claim them. */
  readonly immediate?: boolean | 'unregistered'
  /** For tests that let a worker die within their own process: one that is dead never leaves its gate. */
  readonly gate?: Gate
}

/** What everything in an installation works with. */
export function createRuntime(db: Database, options: RuntimeOptions): Runtime {
  const { logger = silentLogger, gate = processGate } = options
  const metrics = guardedMetrics(options.metrics ?? noMetrics)
  return {
    db,
    codec: guardedCodec(options.codec ?? createCodec()),
    logger,
    metrics,
    reports: createReports({ logger, metrics }),
    limiter: createLimiter(db, { giveUpAfter: GIVE_UP_AFTER, logger, metrics }),
    results: createResults(db, { logger, listen: () => startListener(db, { logger }) }),
    missing: createMissingWorkers({ logger }),
    gate,
    name: workerName(),
    immediate: options.immediate ?? true,
    abortGraceMs: patience.abortGrace('holdfast', 'abortGrace', options.abortGrace),
    inquireForMs: patience.inquireFor('holdfast', 'inquireFor', options.inquireFor),
  }
}
