import { randomUUID } from 'node:crypto'
import { type Holdfast, HoldfastError } from 'holdfast'
import type { DrainOptions } from '../kit/drain.js'
import { openKit, type TestKit } from '../kit/test-kit.js'
import { dropTestDatabase, type TestDatabase, testDatabase } from '../server/test-server.js'
import { liveApart } from './crash-worker.js'
import { planDeliveries } from './deliveries.js'
import type { KillPoint, RunSeed } from './kill-points.js'
import { type Life, liveHere } from './life.js'
import type { CrashTestOptions } from './options.js'

/** The longest lease here: that of a program which runs a process that it has just started. */
const AFTER_ALL_LEASES = '31s'

export interface RunEnd {
  readonly killed: boolean
  /** What the first worker passed while it was idle, and from the start on. */
  readonly idle: readonly string[]
  readonly passed: readonly string[]
}

/** One run on a database of its own: started, killed where the seed says, continued, responded to, drained and checked. */
export async function runOnce<World, Subject>(
  options: CrashTestOptions<World, Subject>,
  template: TestDatabase,
  seed: RunSeed,
): Promise<RunEnd> {
  const database = await testDatabase({ like: template })
  try {
    const client = await openKit({ connectionString: database.connectionString })
    try {
      return await runOn(client, options, seed)
    } finally {
      await client.close()
    }
  } finally {
    await dropTestDatabase(database)
  }
}

async function runOn<World, Subject>(
  client: TestKit,
  options: CrashTestOptions<World, Subject>,
  { order, kill, cancels = false }: RunSeed,
): Promise<RunEnd> {
  // Without a world, the types of the other functions have none either.
  const world = (await options.world?.(client.sql)) as World
  const furnish = (hf: Holdfast) => furnishKit(hf, options, world)
  furnish(client.hf)
  let subject: Subject | undefined
  let due = false
  let cancelled = false
  const cancel = async () => {
    due = cancels
    // If it was killed during its start, its id is known only after the next start; nothing continues before that.
    if (!due || cancelled || subject === undefined) return
    cancelled = true
    await refusable(async () => options.cancel?.(client.hf, subject as Subject, world))
  }
  const line = await createLine(
    (name, dies) => {
      const birth = { connectionString: client.connectionString, name, kill: dies }
      return options.worker ? liveApart(options.worker, birth) : liveHere({ ...birth, furnish })
    },
    { client, kill, cancel, patience: { timeout: options.timeout ?? '60s' } },
  )
  try {
    // The run without a kill shows which points are passed also when there is nothing to do.
    if (order === 0 && !kill) await line.drain()
    const idle = [...line.points()]
    const started = await line.start((hf) => options.start(hf, world))
    subject = started
    if (due) await cancel()
    const responses = options.respond?.(client.hf, started, world) ?? []
    const plan = planDeliveries(responses.length, order)
    const deliver = async (places: readonly number[], then: () => Promise<unknown>) => {
      for (const place of places) {
        await responses[place]?.()
        await then()
      }
    }
    await deliver(plan.early, async () => undefined)
    await line.drain()
    await deliver(plan.during, () => line.drain())
    await line.drain({ skipTime: true })
    await deliver(plan.late, () => line.drain({ skipTime: true }))
    const { hf, sql } = client
    const killed = line.deaths() > 0
    await options.invariant({ kit: client, hf, sql, subject: started, world, killed, cancelled })
    return { killed, idle, passed: line.points().slice(idle.length) }
  } finally {
    await line.end()
  }
}

function furnishKit<World, Subject>(hf: Holdfast, options: CrashTestOptions<World, Subject>, world: World): void {
  const definitions = typeof options.register === 'function' ? options.register(world) : (options.register ?? [])
  for (const definition of definitions) hf.register(definition)
  options.setup?.(hf, world)
}

/** An operation may come too late. */
async function refusable(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.status >= 500) throw error
  }
}

/** A unique name: workers and connections are identified by it. */
const named = (role: string) => `${role} ${randomUUID()}`

interface LineOptions {
  readonly client: TestKit
  readonly kill: KillPoint | undefined
  /** What is done before the next worker continues. */
  readonly cancel: () => Promise<void>
  readonly patience: DrainOptions
}

/** A worker and, when it is killed, the next worker, which continues when the leases of the dead one are over. */
async function createLine(
  begin: (name: string, kill: KillPoint | undefined) => Promise<Life>,
  { client, kill, cancel, patience }: LineOptions,
) {
  let deaths = 0
  let life = await begin(named('victim'), kill)

  /** Does it with the live worker; again with the next one, if it dies meanwhile. */
  async function survive<T>(work: (living: Life) => Promise<T>): Promise<T> {
    const outcome = await Promise.race([work(life).then((done) => ({ done })), life.died.then(() => undefined)])
    if (outcome) return outcome.done
    deaths += 1
    await life.end()
    await cancel()
    life = await begin(named('heir'), undefined)
    await client.clock.advance(AFTER_ALL_LEASES)
    return survive(work)
  }

  return {
    drain: (options: DrainOptions = {}) => survive((living) => living.drain({ ...patience, ...options })),
    start: <T>(work: (hf: Holdfast) => Promise<T>) =>
      survive((living) => living.within(() => work(living.starter === 'client' ? client.hf : living.starter))),
    points: () => life.points(),
    deaths: () => deaths,
    end: () => life.end(),
  }
}
