import type { Holdfast } from 'holdfast'
import { silentLogger } from 'holdfast/internal'
import pg from 'pg'
import type { Faults } from '../harness/faults.js'
import type { DrainOptions } from '../kit/drain.js'
import { openKit } from '../kit/test-kit.js'
import type { KillPoint } from './kill-points.js'
import { type Living, livingIn } from './living.js'
import { withCallPoints } from './user-code.js'

/** More than one: what one execution does beside another of its own (parallel branches of a workflow) is killed in the middle. */
const CONCURRENCY = 4

/** One worker of a crash test, from its start to its end or its death. */
export interface Life {
  /** Through which processes are started; `client` means that its own worker does not start any. */
  readonly starter: Holdfast | 'client'
  /** Runs work that belongs to it: once it is dead, that work stops at its next fault point. */
  within<T>(work: () => T): T
  /** Resolves when it is killed. */
  readonly died: Promise<void>
  /** The fault points it has passed. */
  points(): readonly string[]
  drain(options?: DrainOptions): Promise<unknown>
  /** Ends it, or removes what is left of it. */
  end(): Promise<void>
}

/** How a life begins: with what the user registers, up to a point where it ends. */
export interface Birth {
  readonly connectionString: string
  readonly name: string
  readonly kill: KillPoint | undefined
  readonly furnish: (hf: Holdfast) => void
}

/**
 * A worker within this process. Once killed, none of its code gets past another fault point, and its
 * connections are cut, as the system cuts those of a process that was killed.
 */
export async function liveHere({ connectionString, name, kill, furnish }: Birth): Promise<Life> {
  const mortal = createMortal(kill)
  const within = <T>(work: () => T) => livingIn(mortal, work)
  const kit = await within(() =>
    openKit({
      connectionString,
      name,
      faults: mortal.faults,
      logger: silentLogger,
      worker: { concurrency: CONCURRENCY },
    }),
  )
  const hf = withCallPoints(kit.hf)
  within(() => furnish(hf))
  mortal.begin()
  return {
    starter: hf,
    within,
    died: mortal.died,
    points: () => mortal.points,
    drain: (options) => within(() => kit.drain(options)),
    async end() {
      mortal.pardon()
      if (mortal.isDead()) await bury(connectionString, name)
      else await kit.close()
    },
  }
}

interface Mortal extends Living {
  readonly died: Promise<void>
  readonly points: readonly string[]
  begin(): void
  pardon(): void
}

function createMortal(kill: KillPoint | undefined): Mortal {
  const points: string[] = []
  const never = new Promise<void>(() => undefined)
  let tell = () => {}
  const died = new Promise<void>((resolve) => {
    tell = resolve
  })
  let mortal = false
  let dead = false
  let passed = 0
  const faults: Faults = (point) => {
    if (dead) return never
    if (!mortal) return
    points.push(point)
    if (kill?.point === point) passed += 1
    if (!kill || kill.point !== point || passed !== kill.time) return
    dead = true
    tell()
    return never
  }
  return {
    faults,
    died,
    points,
    isDead: () => dead,
    begin() {
      mortal = true
    },
    pardon() {
      mortal = false
    },
  }
}

/** What the system does for a process that was killed. */
async function bury(connectionString: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query(endStatement, [name])
  } finally {
    await client.end()
  }
}

const endStatement = `
  select pg_terminate_backend(pid)
  from pg_stat_activity
  where datname = current_database() and application_name = $1`
