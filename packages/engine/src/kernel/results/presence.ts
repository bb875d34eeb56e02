import type { Executor } from '../database/executor.js'
import type { Logger } from '../logger.js'
import type { Model } from '../models.js'

/** Whether a live worker has the code of a definition; workers record this every minute. */
export type IsLive = (name: string) => Promise<boolean>

/** Why work that an operator has paused does not continue. */
export const PAUSED = 'paused by an operator until `resume`; `hf.pauses()` says by whom and why'

/** A worker whose last record is older than this counts as gone. */
export const GONE_AFTER = 150_000

/** Whether a live worker has a definition, or a handler of workflow steps, of a model. */
export function presenceIn(db: Executor, model: Model): IsLive {
  return async (name) => {
    const [row] = await db.run<{ live: boolean }>(liveStatement, [model, name, GONE_AFTER])
    return row?.live ?? false
  }
}

const liveStatement = {
  name: 'presence.is-live',
  text: `select holdfast.last_seen($1, $2) > holdfast.now() - $3::float8 * interval '1 ms' as live`,
}

/** A definition that the installation knows, and how many live workers have it. */
export interface KnownDefinition {
  readonly name: string
  readonly version: number
  readonly liveWorkers: number
  readonly lastSeenAt: Date
}

/** What workers have, or once had, of a model; by name. */
export async function knownDefinitions(db: Executor, model: Model): Promise<readonly KnownDefinition[]> {
  return db.run<KnownDefinition & object>(knownStatement, [model, GONE_AFTER])
}

const knownStatement = {
  name: 'presence.known-definitions',
  text: `
    select
      name, version, pg_catalog.max(seen_at) as "lastSeenAt",
      (pg_catalog.count(*) filter (where seen_at > holdfast.now() - $2::float8 * interval '1 ms'))::int as "liveWorkers"
    from holdfast.worker_definition
    where model = $1
    group by name, version
    order by name, version`,
}

/**
 * Warns when work is created that no live worker has the code for: a forgotten `run`, `register` or handler would
 * otherwise look like slowness. It checks a moment after the work was created, at most once per definition and minute.
 */
export interface MissingWorkers {
  /** Work of this definition was created; costs one lookup in a map. */
  made(model: string, name: string, isLive: IsLive): void
  close(): void
}

const LOOK_AFTER = 3_000
const LOOK_AGAIN_AFTER = 60_000

export function createMissingWorkers({
  logger,
  lookAfterMs = LOOK_AFTER,
}: {
  readonly logger: Logger
  readonly lookAfterMs?: number
}): MissingWorkers {
  const looked = new Map<string, number>()
  const timers = new Set<NodeJS.Timeout>()

  async function look(model: string, name: string, isLive: IsLive): Promise<void> {
    try {
      if (await isLive(name)) return
      logger.warn({ event: 'no_live_worker', model, type: name }, missingWorker(model, name))
    } catch (error) {
      logger.debug({ err: error, model, type: name }, 'could not check whether a worker has it')
    }
  }

  return {
    made(model, name, isLive) {
      const key = `${model} ${name}`
      const now = performance.now()
      if (now - (looked.get(key) ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_AFTER) return
      looked.set(key, now)
      const timer = setTimeout(() => {
        timers.delete(timer)
        void look(model, name, isLive)
      }, lookAfterMs).unref()
      timers.add(timer)
    },
    close() {
      for (const timer of timers) clearTimeout(timer)
    },
  }
}

const WHAT_TO_DO: Readonly<Record<string, string>> = {
  commands: 'register its handler with hf.handle and start a worker with hf.run',
  processes: 'register it with hf.register and start a worker with hf.run',
  dispatch: 'register it with hf.register and start a worker with hf.run',
  workflows: 'register the handler with hf.handle and start a worker with hf.run',
}

export function missingWorker(model: string, name: string): string {
  const what = model === 'workflows' ? `the handler ${name}` : name
  return `no live worker has ${what}: ${WHAT_TO_DO[model] ?? 'start a worker that has it'}`
}
