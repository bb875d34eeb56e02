import type { Chores } from '../kernel/chores/chores.js'
import { databaseUptimeMs } from '../kernel/clock/clock.js'
import type { Database } from '../kernel/database/database.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import type { Gate } from '../kernel/work/alone.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import type { WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import { createStepExecutor } from './executor.js'
import { ROOT } from './queries/claim-steps.js'
import { type CalledOff, stepSource } from './source.js'

interface WorkerSettings {
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
}

interface Parts {
  readonly db: Database
  readonly engine: WorkflowEngine
  readonly listener: Listener | undefined
  readonly gate: Gate
  readonly logger: Logger
  readonly metrics: Metrics
}

/** What a worker does for workflows. */
export interface WorkflowWork {
  readonly loop: WorkLoop
  /** Stores the definitions that were registered since. */
  grow(): Promise<void>
  /** Says which handlers this worker has. */
  note(): Promise<void>
}

/** The loop that runs the steps whose handlers this program has (W-04). Definitions registered here are stored first. */
export async function createWorkflowWork(settings: WorkerSettings, parts: Parts): Promise<WorkflowWork> {
  const { db, engine, listener, gate, logger, metrics } = parts
  const stored = new Set<WorkflowDefinition>()
  async function grow(): Promise<void> {
    for (const definition of engine.registered) {
      if (stored.has(definition)) continue
      await engine.definitions.store(definition)
      stored.add(definition)
    }
  }
  await grow()
  const shortest = await engine.definitions.shortestLease()
  const beatMs = Math.min(settings.leaseMs, shortest ?? settings.leaseMs)
  const loop = createWorkLoop({
    source: stepSource(db.reserved, {
      worker: settings.name,
      handlers: () => lanesOf(engine),
      leaseMs: settings.leaseMs,
      calledOff: (step) => reportCalledOff(engine, step),
    }),
    run: createStepExecutor({ ...engine, db, logger, metrics }),
    worker: settings.name,
    concurrency: settings.concurrency,
    leaseMs: beatMs,
    pollMs: settings.pollMs,
    databaseUptimeMs: () => databaseUptimeMs(db),
    onWake: (wake) => subscribe(engine, listener, wake),
    gate,
    logger,
    metrics,
  })
  return { loop, grow, note: () => noteHandlers(db, lanesOf(engine)) }
}

/** It was never called, so it has no effect that anybody would have to undo (K-19). */
async function reportCalledOff({ definitions, happenings }: WorkflowEngine, it: CalledOff): Promise<void> {
  const { steps } = await definitions.byId(it.definition_id)
  const step = steps[it.number]?.name ?? ''
  const kind = it.compensates ? 'compensation' : 'step'
  const claim = { step, kind, epoch: it.epoch, fresh: true, attempts: it.attempts } as const
  const occurrence = { type: 'given_back', step, kind, because: 'stopping' } as const
  await happenings.report({ id: it.workflow_id, occurrence, claim })
}

/** The handlers that are here, and with any of them the starts of instances that begin later. */
function lanesOf({ handlers, registered }: WorkflowEngine): readonly string[] {
  const names = handlers.names()
  return names.length === 0 && registered.size === 0 ? [] : [ROOT, ...names]
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

async function noteHandlers(db: Database, handlers: readonly string[]): Promise<void> {
  await db.run(seenStatement, [handlers])
}

/** Tells, once a minute, which handlers steps wait for and no worker has (W-04). */
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

const seenStatement = {
  name: 'workflows.note-handlers',
  text: `
    insert into holdfast.workflow_handler (handler, seen_at)
    select handler, holdfast.now() from pg_catalog.unnest($1::text[]) as handler order by handler
    on conflict (handler) do update set seen_at = excluded.seen_at`,
}
const missingStatement = {
  name: 'workflows.missing-handlers',
  text: 'select handler, waiting, oldest_seconds from holdfast.note_missing_handlers()',
}
