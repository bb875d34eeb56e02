/**
 * Executions under random faults: many at once, on workers that are killed between any two statements and in the middle of
 * calls, stopped in order, while executions are cancelled. What must hold whatever happened is checked at the end. Everything
 * that goes wrong depends on seeds; only the order of concurrent work depends on the machine.
 */
import { randomUUID } from 'node:crypto'
import { type Holdfast, HoldfastError } from 'holdfast'
import { checkOptions, silentLogger } from 'holdfast/internal'
import pg from 'pg'
import { standingsOf } from '../effects/expect-effects.js'
import type { Sql } from '../kit/sql.js'
import { openKit, type Registrable, type TestKit } from '../kit/test-kit.js'
import { dropTestDatabase, type TestDatabase, testDatabase } from '../server/test-server.js'
import { createRandom } from '../simulation/random.js'
import { type LifePlan, liveOnce } from './mortal.js'

/** The longest lease there is here, and a little more. */
const AFTER_ALL_LEASES = '31s'
/** How often `attend` is called for executions that do not continue by themselves. */
const ROUNDS = 12
const OVER = new Set(['COMPLETED', 'COMPENSATED', 'CANCELLED', 'FAILED', 'ABORTED'])

export interface FaultTestOptions<World> {
  /** The external systems, created for every batch: simulated services that record their calls. */
  readonly world: (seed: number) => World
  readonly register?: (world: World) => readonly Registrable[]
  /** Whatever else your workers do when they start: handlers. */
  readonly setup?: (hf: Holdfast, world: World) => void
  /** Starts one execution and returns its id: with `immediate: false`, so that a worker has it. */
  readonly start: (hf: Holdfast, world: World, seed: number) => Promise<string>
  /** Cancels one; some are cancelled at random moments. One that has ended refuses it, which is expected. */
  readonly cancel?: (hf: Holdfast, id: string, world: World) => Promise<unknown>
  /** Plays the operator for executions that do not continue by themselves; called again until they have ended. */
  readonly attend?: (hf: Holdfast, world: World, open: readonly string[], round: number) => Promise<unknown>
  /** Throws if the end is wrong, whatever happened before. */
  readonly invariant: (end: FaultTestEnd<World>) => unknown
  /** One execution per seed. */
  readonly seeds: number
  /** The first seed. Default: 1. */
  readonly from?: number
  /** How many executions share a world and its workers. Default: 50. */
  readonly together?: number
  /** How many workers of each batch are killed or stopped at most. Default: 20. */
  readonly deaths?: number
  /** About how many executions of a batch are cancelled, in per cent. Default: 30. */
  readonly cancels?: number
  /** How many executions a worker runs at once. Default: 16. */
  readonly concurrency?: number
  /** Called for each batch that is done. */
  readonly onBatch?: (done: { readonly from: number; readonly seeds: number; readonly deaths: number }) => void
}

export interface FaultTestEnd<World> {
  readonly kit: TestKit
  readonly hf: Holdfast
  readonly sql: Sql
  readonly world: World
  /** The id of the execution of each seed. */
  readonly ids: ReadonlyMap<number, string>
}

export interface FaultTestReport {
  readonly executions: number
  /** Workers that were killed or stopped. */
  readonly deaths: number
  readonly cancels: number
}

const OPTIONS = [
  'world',
  'register',
  'setup',
  'start',
  'cancel',
  'attend',
  'invariant',
  'seeds',
  'from',
  'together',
  'deaths',
  'cancels',
  'concurrency',
  'onBatch',
] as const satisfies readonly (keyof FaultTestOptions<unknown>)[]

/**
 * Runs your code under random faults, and checks what must hold. An error names the seeds that rerun the batch.
 *
 * @example
 * await faultTest({
 *   seeds: 500,
 *   world: (seed) => createEffects({ seed, faults: { lostAnswer: 10, refused: 5, unreachable: 10 } }),
 *   register: (bank) => [refundVia(bank)],
 *   start: async (hf, bank, seed) => (await hf.start(refundVia(bank), { refund: `R-${seed}` }, { immediate: false })).id,
 *   cancel: (hf, id) => hf.process(Refund, id).cancel(by),
 *   invariant: ({ world, sql }) => expectEveryEffectKeptOrUndone(world, sql),
 * })
 */
export async function faultTest<World>(options: FaultTestOptions<World>): Promise<FaultTestReport> {
  checkOptions('faultTest', options, OPTIONS)
  const { seeds, from = 1, together = 50 } = options
  const database = await testDatabase()
  const admin = new pg.Pool({ connectionString: database.connectionString, max: 2 })
  admin.on('error', () => undefined)
  const report = { executions: 0, deaths: 0, cancels: 0 }
  try {
    for (let first = from; first < from + seeds; first += together) {
      const count = Math.min(together, from + seeds - first)
      const batch = new Batch(options, { database, admin, first, count })
      const { deaths, cancels } = await batch.run()
      report.executions += count
      report.deaths += deaths
      report.cancels += cancels
      options.onBatch?.({ from: first, seeds: count, deaths })
    }
    return report
  } finally {
    await admin.end()
    await dropTestDatabase(database)
  }
}

interface BatchParts {
  readonly database: TestDatabase
  readonly admin: pg.Pool
  readonly first: number
  readonly count: number
}

/** Executions that share a world and a line of workers. */
class Batch<World> {
  readonly #options: FaultTestOptions<World>
  readonly #parts: BatchParts
  readonly #random: () => number
  readonly #world: World
  readonly #ids = new Map<number, string>()
  readonly #troubles: unknown[] = []
  #cancels = 0
  #deaths = 0

  constructor(options: FaultTestOptions<World>, parts: BatchParts) {
    this.#options = options
    this.#parts = parts
    this.#random = createRandom(`faults ${parts.first}`)
    this.#world = options.world(parts.first)
  }

  async run(): Promise<{ readonly deaths: number; readonly cancels: number }> {
    const { first, count, database } = this.#parts
    const client = await openKit({ connectionString: database.connectionString, logger: silentLogger })
    try {
      this.#furnish(client.hf)
      await Promise.all(
        Array.from({ length: count }, async (_, place) => {
          const seed = first + place
          this.#ids.set(seed, await this.#options.start(client.hf, this.#world, seed))
        }),
      )
      await this.#struggle(client)
      await this.#settle(client)
      const { hf, sql } = client
      await this.#options.invariant({ kit: client, hf, sql, world: this.#world, ids: this.#ids })
      if (this.#troubles.length > 0) throw this.#troubles[0]
    } catch (error) {
      throw this.#told(error)
    } finally {
      await client.close()
    }
    return { deaths: this.#deaths, cancels: this.#cancels }
  }

  /** Workers one after the other, each until its end, and cancels in between. */
  async #struggle(client: TestKit): Promise<void> {
    const { deaths = 20 } = this.#options
    const lives = Math.floor(this.#random() * (deaths + 1))
    for (let life = 0; life < lives; life++) {
      const fate = this.#random() < 0.75 ? 'killed' : 'stopped'
      const plan = this.#plan(client, fate, 1 + Math.floor(this.#random() ** 2 * 20 * Math.sqrt(this.#parts.count)))
      // A worker that has nothing left to do before its end simply stops.
      if ((await this.#live(plan)) !== 'lives') this.#deaths += 1
      if (this.#random() < 0.5) await this.#cancelSome(client)
      await client.clock.advance(AFTER_ALL_LEASES)
    }
    await this.#live(this.#plan(client, 'lives', 0))
  }

  /** Until everything has ended: `attend` is called for executions that do not continue by themselves. */
  async #settle(client: TestKit): Promise<void> {
    const { attend } = this.#options
    for (let round = 1; round <= ROUNDS; round++) {
      const open = await this.#open(client)
      if (open.length === 0 || !attend) return
      await this.#refusable(() => attend(client.hf, this.#world, open, round))
      await client.clock.advance(AFTER_ALL_LEASES)
      await this.#live({ fate: 'lives', endsAt: 0, passing: () => undefined })
    }
  }

  async #open({ sql }: TestKit): Promise<string[]> {
    const ids = [...this.#ids.values()]
    const standings = await standingsOf(sql, ids)
    return ids.filter((id) => !OVER.has(standings.get(id)?.status ?? ''))
  }

  #plan(client: TestKit, fate: LifePlan['fate'], endsAt: number): LifePlan {
    const { cancel, cancels = 30 } = this.#options
    const { count } = this.#parts
    const moments = new Set(
      cancel
        ? Array.from({ length: Math.ceil((count * cancels) / 300) }, () => 1 + Math.floor(this.#random() * 8 * count))
        : [],
    )
    // A worker that passes the point is held until the cancellation is on record, so that it comes in the middle of its work.
    return { fate, endsAt, passing: (at) => (moments.has(at) ? this.#cancelOne(client) : undefined) }
  }

  #live(plan: LifePlan): ReturnType<typeof liveOnce> {
    const { database, admin } = this.#parts
    const { concurrency = 16 } = this.#options
    const parts = {
      connectionString: database.connectionString,
      name: `worker ${randomUUID()}`,
      concurrency,
      furnish: (hf: Holdfast) => this.#furnish(hf),
    }
    return liveOnce(parts, plan, admin)
  }

  #furnish(hf: Holdfast): void {
    for (const definition of this.#options.register?.(this.#world) ?? []) hf.register(definition)
    this.#options.setup?.(hf, this.#world)
  }

  async #cancelSome(client: TestKit): Promise<void> {
    if (!this.#options.cancel) return
    for (let some = Math.floor(this.#random() * 3); some > 0; some--) await this.#cancelOne(client)
  }

  async #cancelOne({ hf }: TestKit): Promise<void> {
    const ids = [...this.#ids.values()]
    const id = ids[Math.floor(this.#random() * ids.length)]
    if (id === undefined) return
    this.#cancels += 1
    await this.#refusable(async () => this.#options.cancel?.(hf, id, this.#world))
  }

  /** What an operator does may come too late; any other error is one. */
  async #refusable(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.status >= 500) this.#troubles.push(error)
    }
  }

  #told(error: unknown): Error {
    const { first, count } = this.#parts
    const seeds = [...this.#ids].map(([seed, id]) => [id, `seed ${seed}, ${id}`] as const)
    let why = error instanceof Error ? error.message : String(error)
    for (const [id, named] of seeds) why = why.replaceAll(id, named)
    return new Error(`faultTest: it does not hold\n${why}\n  rerun this batch: from: ${first}, seeds: ${count}`, {
      cause: error,
    })
  }
}
