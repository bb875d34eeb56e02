// What a worker does for workflows: stores the registered definitions, then runs the loop that claims and calls steps. `worker.ts` of
// the engine calls it. A step must never be called before its definition is stored.

import type { Chores, Listener, Logger, Metrics, ModelWork, Runtime, WorkerParts } from '../kernel/model/index.js'
import { handlersOf, type WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import { createStepExecutor } from './executor.js'
import { ROOT } from './queries/claim-steps.js'
import { type CalledOff, stepSource } from './source.js'

/** What a worker does for workflows: the loop that runs the steps whose handlers this program has. */
export function workflowWork(runtime: Runtime, engine: WorkflowEngine, worker: WorkerParts): ModelWork {
  const { db } = runtime
  const { settings, listener, loop } = worker
  const stored = new Set<WorkflowDefinition>()
  let made = false
  const lanes = () => lanesOf(engine, settings.workflows === 'ofDomains' ? worker.domains() : undefined)
  return {
    async grow({ add }) {
      if (settings.workflows === 'none') return
      // Definitions that are registered here are stored before their steps run.
      for (const definition of engine.registered) {
        if (stored.has(definition)) continue
        await engine.definitions.store(definition)
        stored.add(definition)
      }
      if (made) return
      const shortest = await engine.definitions.shortestLease()
      const source = stepSource(db.reserved, {
        worker: settings.name,
        handlers: lanes,
        leaseMs: settings.leaseMs,
        calledOff: (step) => reportCalledOff(engine, step),
      })
      made = true
      add(
        loop({
          source,
          run: createStepExecutor({ ...engine, ...runtime }),
          concurrency: settings.concurrency,
          leaseMs: Math.min(settings.leaseMs, shortest ?? settings.leaseMs),
          onWake: (wake) => subscribe(engine, listener, wake),
        }),
      )
    },
    has: () => (made ? lanes().map((name) => ({ model: 'workflows' as const, name })) : []),
  }
}

/** It was never called, so it has no effect to undo. */
async function reportCalledOff({ definitions, events }: WorkflowEngine, it: CalledOff): Promise<void> {
  const { steps } = await definitions.byId(it.definition_id)
  const step = steps[it.number]?.name ?? ''
  const kind = it.compensates ? 'compensation' : 'step'
  const claim = { step, kind, epoch: it.epoch, fresh: true, attempts: it.attempts } as const
  const event = { type: 'released', step, kind, because: 'stopping' } as const
  await events.apply({ id: it.workflow_id, event, claim })
}

/**
 * The handlers that are here, and with any of them the starts of instances that begin later; and the starts whose input can be
 * checked here. Of a worker with domains: those that
 * workflows of these domains use, as far as the workflows are registered here or were given to `handle`.
 */
function lanesOf(engine: WorkflowEngine, domains: readonly string[] | undefined): readonly string[] {
  const { handlers, registered, handled, definitions } = engine
  const unchecked = definitions.uncheckedLanes(domains)
  const names = handlers.names()
  if (domains === undefined) {
    return names.length + registered.size + unchecked.length === 0 ? [] : [ROOT, ...unchecked, ...names]
  }
  const known = new Set([...registered, ...handled].filter(({ domain }) => domains.includes(domain)))
  const used = new Set([...known].flatMap((workflow) => handlersOf(workflow)))
  return known.size + unchecked.length === 0 ? [] : [ROOT, ...unchecked, ...names.filter((name) => used.has(name))]
}

function subscribe(engine: WorkflowEngine, listener: Listener | undefined, wake: () => void): () => void {
  if (!listener) return () => undefined
  const ends = [ROOT, ...engine.handlers.names()].map((name) => listener.subscribe(`workflows:${name}`, wake))
  ends.push(
    listener.subscribe('workflows:abort', () => engine.aborts.look()),
    engine.handlers.onAdded(({ type }) => {
      ends.push(listener.subscribe(`workflows:${type}`, wake))
      wake()
    }),
  )
  return () => {
    for (const end of ends) end()
  }
}

/** Reports, once a minute, handlers that steps wait for and that no worker has. */
export function workflowChores({ logger, metrics }: { logger: Logger; metrics: Metrics }): Chores {
  let missed = new Set<string>()
  return {
    async workflow_handlers(db) {
      const rows = await db.run<{ handler: string; waiting: string; oldest_seconds: number }>(missingStatement)
      for (const { handler, waiting, oldest_seconds } of rows) {
        metrics.gauge('steps_without_handler', { model: 'workflows', type: handler }, Number(waiting))
        logger.warn({ handler, waiting: Number(waiting), oldestSeconds: oldest_seconds }, 'no worker has this handler')
      }
      const now = new Set(rows.map(({ handler }) => handler))
      for (const handler of missed) {
        if (!now.has(handler)) metrics.gauge('steps_without_handler', { model: 'workflows', type: handler }, 0)
      }
      missed = now
    },
  }
}

const missingStatement = {
  name: 'workflows.missing-handlers',
  text: 'select handler, waiting, oldest_seconds from holdfast.note_missing_handlers()',
}
