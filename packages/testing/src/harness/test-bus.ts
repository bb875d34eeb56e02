import type {
  Codec,
  CommandDefinition,
  CommandHandler,
  Holdfast,
  HoldfastOptions,
  Logger,
  Metrics,
  RecordedAuditEntry,
  Worker,
  WorkerOptions,
} from 'holdfast'
import { assemble, type Database, moveClock, openDatabase, silentLogger } from 'holdfast/internal'
import pg from 'pg'
import { testDatabase } from '../server/test-server.js'
import type { Faults } from './faults.js'
import { type TestProcesses, testProcesses } from './test-processes.js'

export interface TestBusOptions {
  readonly codec?: Codec
  readonly metrics?: Metrics
  /** Default: silent. */
  readonly logger?: Logger
  readonly faults?: Faults
  readonly poolSize?: number
  readonly abortGrace?: HoldfastOptions['abortGrace']
  /** Default: an `inquire` is asked once. */
  readonly inquireFor?: HoldfastOptions['inquireFor']
  /** Default: processes run in their starter also where they are not registered. */
  readonly immediate?: boolean
  /** An existing, migrated database. Default: a new one. */
  readonly connectionString?: string
}

/** An installation of a test's own, with what a test wants to see and do besides the API. */
export interface TestBus extends TestProcesses {
  readonly hf: Holdfast
  readonly db: Database
  readonly connectionString: string
  /** Any SQL, past the product. */
  sql<Row extends object = Record<string, unknown>>(text: string, params?: unknown[]): Promise<Row[]>
  moveClock(milliseconds: number): Promise<void>
  /** As if workers had sent heartbeats without a gap for an hour: an absent worker is really gone. */
  steady(): Promise<void>
  /** Registers a handler and starts a worker for the command's domain, which polls often. */
  work<Input, Data, Result>(
    command: CommandDefinition<Input, Data, Result>,
    handler: CommandHandler<Data, Result>,
    options?: WorkerOptions,
  ): Promise<Worker>
  /** The events on record about a command, in order. */
  events(id: string): Promise<string[]>
  close(): Promise<void>
}

/**
 * Opens an installation on a database of its own.
 *
 * @example
 * const bus = await openTestBus()
 * await bus.work(BookRisk, () => ({ reference: 'r1' }))
 */
export async function openTestBus(options: TestBusOptions = {}): Promise<TestBus> {
  const { codec, metrics, logger, faults, poolSize = 10 } = options
  const connectionString = options.connectionString ?? (await testDatabase()).connectionString
  const db = await openDatabase({ connectionString, poolSize, ...(faults ? { faults } : {}) })
  const { abortGrace, inquireFor = 0 } = options
  const hf = assemble(db, {
    ...(codec ? { codec } : {}),
    ...(metrics ? { metrics } : {}),
    logger: logger ?? silentLogger,
    ...(abortGrace === undefined ? {} : { abortGrace }),
    inquireFor,
    immediate: options.immediate ?? 'unregistered',
  })
  const pool = new pg.Pool({ connectionString, max: 4 })
  // A connection that a test breaks while it is idle is replaced.
  pool.on('error', () => undefined)
  const sql = async <Row extends object>(text: string, params?: unknown[]) => (await pool.query<Row>(text, params)).rows
  return {
    ...testProcesses(hf, sql),
    hf,
    db,
    connectionString,
    sql,
    moveClock: (milliseconds) => moveClock(db, milliseconds),
    async steady() {
      await sql(
        `update holdfast.presence set last_beat_at = holdfast.now(), steady_since = holdfast.now() - interval '1 hour'`,
      )
    },
    work(command, handler, workerOptions) {
      hf.handle(command, handler)
      return hf.run({ domains: [command.domain], poll: '20ms', ...workerOptions })
    },
    events: async (id) => (await hf.auditTrail({ id })).map(({ event }: RecordedAuditEntry) => event),
    async close() {
      await hf.close()
      await pool.end()
    },
  }
}
