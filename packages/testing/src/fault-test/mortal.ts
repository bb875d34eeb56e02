import type { Holdfast } from 'holdfast'
import { type Queryable, silentLogger } from 'holdfast/internal'
import { type Living, livingIn } from '../crash/living.js'
import { openKit } from '../kit/test-kit.js'

/** How a worker ends: a kill, an orderly stop, or not at all. */
export type Fate = 'killed' | 'stopped' | 'lives'

export interface LifePlan {
  readonly fate: Fate
  /** It ends after this many fault points: statements of the engine, and effects of the simulated services. */
  readonly endsAt: number
  /** Called for every point that is passed, with its number; every worker that passes the point waits for it. */
  readonly passing: (count: number) => Promise<void> | undefined
}

export interface LifeParts {
  readonly connectionString: string
  readonly name: string
  readonly concurrency: number
  readonly furnish: (hf: Holdfast) => void
}

/**
 * A worker within this process, until its end. Returns how it ended: a dead one never gets past its next fault
 * point, and its connections are cut, as the system cuts those of a process that was killed.
 */
export async function liveOnce(parts: LifeParts, plan: LifePlan, admin: Queryable): Promise<Fate> {
  const { connectionString, name, concurrency, furnish } = parts
  const end = ending()
  const isDead = () => end.fate === 'killed'
  let count = 0
  let begun = false
  const life: Living = {
    isDead,
    faults(point) {
      if (isDead()) return never
      if (!begun || / clock\./.test(point)) return
      count += 1
      if (plan.fate !== 'lives' && count >= plan.endsAt) end.with(plan.fate)
      return isDead() ? never : plan.passing(count)
    },
  }
  const kit = await livingIn(life, () =>
    openKit({ connectionString, name, faults: life.faults, logger: silentLogger, worker: { concurrency } }),
  )
  livingIn(life, () => furnish(kit.hf))
  begun = true
  const drained = livingIn(life, () => kit.drain({ skipTime: true, timeout: '60s', signal: end.stopping.signal }))
  await Promise.race([drained, end.killed])
  // Closing has statements too: it may die there, and would never return.
  if (!isDead()) await Promise.race([kit.close(), end.killed])
  if (isDead()) await bury(admin, name)
  return end.fate
}

const never = new Promise<never>(() => undefined)

function ending() {
  let tell = () => {}
  const killed = new Promise<void>((resolve) => {
    tell = resolve
  })
  return {
    fate: 'lives' as Fate,
    killed,
    stopping: new AbortController(),
    with(fate: Fate) {
      this.fate = fate
      if (fate === 'killed') tell()
      else this.stopping.abort()
    },
  }
}

/** What the system does for a process that was killed. */
async function bury(admin: Queryable, name: string): Promise<void> {
  await admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = $1',
    [name],
  )
}
