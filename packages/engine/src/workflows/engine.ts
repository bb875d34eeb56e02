import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Reports } from '../kernel/reports/reports.js'
import { type Aborts, createAborts } from './aborts.js'
import type { Payloads } from './decide/payloads.js'
import type { WorkflowDefinition } from './definition/definition.js'
import { createDefinitions, type Definitions } from './definitions.js'
import { createHappenings, type Happenings } from './happenings.js'
import { createHooks, type Hooks } from './hooks.js'
import { payloadsOf } from './payloads.js'
import { createStepHandlers, type StepHandlers } from './registry.js'
import { reportingHooks } from './report.js'

/** What starters, workers and operators of workflows share in one program. */
export interface WorkflowEngine {
  readonly codec: Codec
  readonly payloads: Payloads
  readonly definitions: Definitions
  readonly happenings: Happenings
  readonly handlers: StepHandlers
  readonly hooks: Hooks
  readonly aborts: Aborts
  /** How long a handler that was told to stop is waited for. */
  readonly abortGraceMs: number
  readonly inquireForMs: number
  readonly reports: Reports
  /** Definitions that workers store before they begin. */
  readonly registered: Set<WorkflowDefinition>
  /** Definitions whose handlers were registered with them: they say to which domains a handler belongs. */
  readonly handled: Set<WorkflowDefinition>
  close(): Promise<void>
}

interface Options {
  readonly codec: Codec
  readonly abortGraceMs: number
  readonly inquireForMs: number
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
}

/** A call on another machine hears within a second that it is to stop. */
const LOOK_EVERY = 500

export function createWorkflowEngine(db: Database, options: Options): WorkflowEngine {
  const { codec, abortGraceMs, inquireForMs, logger, metrics, reports } = options
  const definitions = createDefinitions(db)
  const payloads = payloadsOf(codec)
  const hooks = reportingHooks(createHooks(logger), reports)
  const aborts = createAborts(db, { everyMs: LOOK_EVERY, logger })
  const happenings = createHappenings(db, {
    definitions,
    payloads,
    happened: (it) => hooks.happened(it),
    logger,
    metrics,
  })
  return {
    codec,
    payloads,
    definitions,
    happenings,
    handlers: createStepHandlers(),
    hooks,
    aborts,
    abortGraceMs,
    inquireForMs,
    reports,
    registered: new Set(),
    handled: new Set(),
    async close() {
      aborts.close()
      await happenings.close(1_000)
    },
  }
}
