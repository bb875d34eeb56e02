// What starters, workers and operators of workflows share in one program: definitions, handlers, hooks and the one way in
// which instances change. `model.ts` makes one per installation. Hooks and reports must be told of every committed event once,
// so both are told here, by the program that committed it.

import type { Runtime } from '../kernel/model/index.js'
import { createAborts } from './aborts.js'
import type { WorkflowDefinition } from './definition/definition.js'
import { createDefinitions } from './definitions.js'
import { createHooks } from './hooks.js'
import { createInstanceEvents } from './instance-events.js'
import { payloadsOf } from './payloads.js'
import { createStepHandlers } from './registry.js'
import { reportDecision } from './report.js'

export type WorkflowEngine = ReturnType<typeof createWorkflowEngine>

/** A call on another machine is aborted within a second. */
const ABORT_POLL_MS = 500

export function createWorkflowEngine({ db, codec, logger, metrics, reports }: Runtime) {
  const definitions = createDefinitions(db)
  const payloads = payloadsOf(codec)
  const hooks = createHooks(logger)
  const aborts = createAborts(db, { everyMs: ABORT_POLL_MS, logger })
  const events = createInstanceEvents(db, {
    definitions,
    payloads,
    applied(event) {
      reportDecision(reports, event)
      hooks.applied(event)
    },
    logger,
    metrics,
  })
  const registered = new Set<WorkflowDefinition>()
  return {
    codec,
    payloads,
    definitions,
    events,
    handlers: createStepHandlers(),
    hooks,
    aborts,
    /** Definitions that workers store before they begin. */
    registered,
    register(definition: WorkflowDefinition): void {
      definitions.learn(definition)
      registered.add(definition)
    },
    /** Definitions whose handlers were registered with them: they say to which domains a handler belongs. */
    handled: new Set<WorkflowDefinition>(),
    async close(): Promise<void> {
      aborts.close()
      await events.close(1_000)
    },
  }
}
