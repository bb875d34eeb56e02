import { type Actor, type RecordedAuditEntry, readAudit } from './kernel/audit/audit.js'
import { openDatabase } from './kernel/database/open.js'
import type { DatabaseOptions } from './kernel/database/options.js'
import { type Logger, silentLogger } from './kernel/logger.js'
import { type Metrics, noMetrics } from './kernel/metrics/metrics.js'
import { migrate } from './kernel/migrations/migrate.js'
import { verifySchema } from './kernel/migrations/verify.js'
import { listPauses, type Pause, type PauseSubject, pauseWork, resumeWork } from './kernel/pausing/pausing.js'
import { booleanOption, checkOptions } from './kernel/validation/options.js'
import { startWorker, type Worker, type WorkerOptions } from './worker.js'

export interface HoldfastOptions extends Omit<DatabaseOptions, 'faults'> {
  /** Bring the schema up to date when opening (default). Otherwise it is only checked. */
  readonly migrate?: boolean
  readonly logger?: Logger
  readonly metrics?: Metrics
}

/** An open installation of Holdfast: one schema in one PostgreSQL database. */
export interface Holdfast {
  readonly schema: string
  /** Starts a worker for everything that is registered here; it also does the housekeeping of the installation. */
  run(options?: WorkerOptions): Worker
  /** Stops claims of a domain, a definition or a handler; what is running goes on. */
  pause(subject: PauseSubject, by: Actor): Promise<boolean>
  resume(subject: PauseSubject, by: Actor): Promise<boolean>
  pauses(): Promise<Pause[]>
  /** What is on record about a thing, oldest first. */
  auditTrail(subject: { readonly id: string } | { readonly name: string }): Promise<RecordedAuditEntry[]>
  /** Drains the workers started here and closes the connections. A pool of yours stays open. */
  close(): Promise<void>
}

const KNOWN_OPTIONS = [
  'connectionString',
  'pool',
  'directConnectionString',
  'schema',
  'prepare',
  'poolSize',
  'statementTimeout',
  'applicationName',
  'logger',
  'migrate',
  'metrics',
] as const satisfies readonly (keyof HoldfastOptions)[]

/**
 * Opens Holdfast on a PostgreSQL database and brings its schema up to date.
 *
 * @example
 * const hf = await holdfast({ connectionString: 'postgres://app@localhost/shop' })
 * const worker = hf.run({ concurrency: 50 })
 * await hf.close()
 */
export async function holdfast(options: HoldfastOptions = {}): Promise<Holdfast> {
  const given = checkOptions('holdfast', options, KNOWN_OPTIONS)
  const mayMigrate = booleanOption('holdfast', 'migrate', given.migrate, { default: true })
  const { logger = silentLogger, metrics = noMetrics } = options
  const db = await openDatabase({ ...options, logger })
  try {
    if (mayMigrate) await migrate(db, { logger })
    else await verifySchema(db)
  } catch (error) {
    await db.close()
    throw error
  }
  const workers = new Set<Worker>()
  return {
    schema: db.schema,
    run(workerOptions) {
      const worker = startWorker(db, workerOptions, { logger, metrics })
      workers.add(worker)
      return worker
    },
    pause: (subject, by) => pauseWork(db, subject, by),
    resume: (subject, by) => resumeWork(db, subject, by),
    pauses: () => listPauses(db),
    auditTrail: (subject) => readAudit(db, subject),
    async close() {
      await Promise.all([...workers].map((worker) => worker.stop()))
      await db.close()
    },
  }
}
