import type {
  Codec,
  CommandContext,
  CommandDefinition,
  DispatchDefinition,
  Duration,
  Holdfast,
  Logger,
  ManagerDefinition,
  Metrics,
  ProcessDefinition,
  WorkerOptions,
  WorkflowDefinition,
} from 'holdfast'
import {
  assemble,
  checkOptions,
  createGate,
  databaseNow,
  loopsOf,
  moveClock,
  openDatabase,
  parseDuration,
} from 'holdfast/internal'
import pg from 'pg'
import type { Faults } from '../harness/faults.js'
import { dropTestDatabase, testDatabase } from '../server/test-server.js'
import { type Drained, type DrainOptions, untilIdle } from './drain.js'
import { type ExpectedLine, expectHistory } from './expect-history.js'
import { type Fake, type FakeAnswer, fake } from './fake.js'
import { type HasHistory, historyOf } from './history.js'
import type { Sql } from './sql.js'

/** What `hf.register` takes. */
export type Registrable = ProcessDefinition | ManagerDefinition | DispatchDefinition | WorkflowDefinition

export interface TestKitOptions {
  /** Processes, managers, dispatches and workflows to register; the handlers of workflows go to `kit.hf`. */
  readonly register?: readonly Registrable[]
  /** Your own tables: SQL to run first. */
  readonly prepare?: string
  /** An existing, migrated database, which the kit keeps. Default: a new one, which the kit removes. */
  readonly connectionString?: string
  /** How the kit's own worker works while it drains: `concurrency`, `maxAttempts`, `retry`, `handlerTimeout`, `lease`. */
  readonly worker?: Omit<WorkerOptions, 'domains' | 'name' | 'notify' | 'poll'>
  readonly codec?: Codec
  readonly logger?: Logger
  readonly metrics?: Metrics
  /** How long code that was told to stop is awaited. Default: 30 s. */
  readonly abortGrace?: Duration
  /** How long an `inquire` that fails or does not know is repeated. Default: it is called once. */
  readonly inquireFor?: Duration
}

/** An installation of a test's own. Its worker runs while you drain, and only then. */
export interface TestKit {
  readonly hf: Holdfast
  readonly connectionString: string
  /** Any SQL, for your own tables and for the tables of the engine. */
  readonly sql: Sql
  readonly clock: {
    now(): Promise<Date>
    /** Moves the database's clock, for all connections. Do so between two drains, while nothing runs. */
    advance(by: Duration): Promise<void>
  }
  /**
   * Runs everything that is due, and what becomes due by that, until nothing is.
   *
   * @example
   * await kit.drain()
   * await kit.drain({ skipTime: true })
   * await kit.drain({ until: async () => (await kit.hf.process(Payment, id).get()).status === 'COMPLETED' })
   */
  drain(options?: DrainOptions): Promise<Drained>
  /** Handles a command by a fake, which returns what you tell it to and records its calls. */
  fake<Input, Data, Result>(
    command: CommandDefinition<Input, Data, Result>,
    answer?: FakeAnswer<[data: Data, ctx: CommandContext], Result>,
  ): Fake<[data: Data, ctx: CommandContext], Result>
  /** What happened, a line each: `STEP bookRisk COMPLETED`. Processes go by id or key, commands and workflow instances by id. */
  history(of: HasHistory, idOrKey: string): Promise<string[]>
  /** Compares the history with the expected lines; `'…'` stands for any number of lines. */
  expectHistory(of: HasHistory, idOrKey: string, expected: readonly ExpectedLine[]): Promise<void>
  /** Closes everything, and removes the database if it is the kit's own. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Everything a test of durable code needs: a PostgreSQL, a database of its own in it, an open installation, its clock
 * and a worker that runs when you say so.
 *
 * @example
 * await using kit = await testKit({ register: [Payment] })
 * const { id } = await kit.hf.start(Payment, { paymentId: 'PAY-1', cents: 25_000 })
 * await kit.clock.advance('2h')
 * await kit.drain()
 * await kit.expectHistory(Payment, id, ['PROCESS_CREATED', '…', 'COMPENSATED'])
 */
export async function testKit(options: TestKitOptions = {}): Promise<TestKit> {
  checkOptions('testKit', options, OPTIONS)
  if (options.connectionString !== undefined) return openKit({ ...options, connectionString: options.connectionString })
  const database = await testDatabase()
  const drop = () => dropTestDatabase(database)
  try {
    return await openKit({ ...options, connectionString: database.connectionString, closed: drop })
  } catch (error) {
    await drop()
    throw error
  }
}

const OPTIONS = [
  'register',
  'prepare',
  'connectionString',
  'worker',
  'codec',
  'logger',
  'metrics',
  'abortGrace',
  'inquireFor',
] as const satisfies readonly (keyof TestKitOptions)[]

interface KitParts extends TestKitOptions {
  readonly connectionString: string
  readonly faults?: Faults
  /** By which its connections are known to the server. */
  readonly name?: string
  readonly closed?: () => Promise<void>
}

// Long enough for a stalled machine: time is moved, not waited for. Not longer, because on a server that has just come up
// a worker leaves expired leases alone for a third of it.
const LEASE = '9s'

/** The kit on a database that is there, with fault points where they are wanted. */
export async function openKit(parts: KitParts): Promise<TestKit> {
  const { connectionString, faults, name, codec, logger, metrics, closed } = parts
  const pool = new pg.Pool({ connectionString, max: 4 })
  // A kit whose database is removed, or whose connections are cut, does not log that.
  pool.on('error', () => undefined)
  const sql: Sql = async <Row extends object>(text: string, params?: unknown[]) =>
    (await pool.query<Row>(text, params)).rows
  const db = await openDatabase({
    connectionString,
    ...(faults ? { faults } : {}),
    ...(name ? { applicationName: name } : {}),
    ...(logger ? { logger } : {}),
  })
  const workers = new Set<string>()
  const hf = noting(
    assemble(db, {
      ...(codec ? { codec } : {}),
      ...(logger ? { logger } : {}),
      ...(metrics ? { metrics } : {}),
      ...(parts.abortGrace === undefined ? {} : { abortGrace: parts.abortGrace }),
      inquireFor: parts.inquireFor ?? 0,
      // What is killed within this process never ends, and holds up nothing but itself.
      gate: createGate(),
    }),
    workers,
  )
  if (parts.prepare) await sql(parts.prepare)
  for (const definition of parts.register ?? []) hf.register(definition)

  const kit: TestKit = {
    hf,
    connectionString,
    sql,
    clock: {
      now: () => databaseNow(db),
      advance: (by) => moveClock(db, parseDuration(by, 'clock.advance')),
    },
    async drain(options) {
      const worker = await hf.run({
        lease: LEASE,
        ...parts.worker,
        ...(name ? { name } : {}),
        notify: false,
        poll: '20ms',
      })
      const loops = () => [...workers].flatMap(loopsOf)
      try {
        return await untilIdle(
          {
            loops,
            moveClock: (milliseconds) => moveClock(db, milliseconds),
            nextItemDueMs: async () => (await sql<{ ms: number | null }>(nextItemText))[0]?.ms ?? null,
          },
          options,
        )
      } finally {
        // An idle worker stops at once; one that hangs is abandoned.
        await worker.stop(100)
        workers.delete(worker.name)
      }
    },
    fake(command, answer) {
      const faked = fake(answer)
      hf.handle(command, faked)
      return faked
    },
    history: (of, idOrKey) => historyOf(hf, of, idOrKey),
    expectHistory: async (of, idOrKey, expected) => expectHistory(await historyOf(hf, of, idOrKey), expected),
    async close() {
      await hf.close()
      await pool.end()
      await closed?.()
    },
    [Symbol.asyncDispose]: () => kit.close(),
  }
  return kit
}

const nextItemText = `
  select extract(epoch from min(due_at) - holdfast.now())::float8 * 1000 as ms
  from holdfast.dispatch_item
  join holdfast.dispatch_config using (item_type)
  where enabled`

/** The installation, and the names of all workers that are started in it: drains wait for those too. */
function noting(hf: Holdfast, workers: Set<string>): Holdfast {
  return {
    ...hf,
    worker(domain, options) {
      const worker = hf.worker(domain, options)
      workers.add(worker.name)
      return worker
    },
    async run(options) {
      const worker = await hf.run(options)
      workers.add(worker.name)
      return worker
    },
  }
}
