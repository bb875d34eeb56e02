import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../database/database.js'
import { codeOf, isTransient } from '../database/transient.js'
import { type Logger, silentLogger } from '../logger.js'
import { createBackoff } from '../retry/backoff.js'
import { type ApplyOutcome, applyNext } from './apply.js'
import { type MigrationFile, readSqlFiles, type SqlFiles } from './files.js'
import { install } from './install.js'
import { applyOnline } from './online.js'
import { planMigration } from './plan.js'
import { sqlDirectory } from './sql-directory.js'
import { readState } from './state.js'

export interface MigrateOptions {
  /** A folder with `migrations/` and `functions/`; our own by default. */
  readonly directory?: string
  /** Milliseconds that a file waits for a table lock before it lets other sessions pass and tries again. */
  readonly lockTimeout?: number
  /** Milliseconds without progress after which a database in trouble, or a table that stays locked, is given up on. */
  readonly patience?: number
  readonly logger?: Logger
}

export interface MigrationReport {
  /** The migrations that this call applied, in order. */
  readonly applied: readonly string[]
  /** The function files that this call applied. */
  readonly functions: readonly string[]
  /** The release of the schema now; one above ours while a newer instance is being rolled out. */
  readonly release: number
}

/**
 * Brings the schema up to date. Any number of instances may call it at once: one works, the others wait and find
 * nothing left to do. A file that fails is rolled back whole.
 *
 * @example
 * const { applied, release } = await migrate(db)
 */
export async function migrate(db: Database, options: MigrateOptions = {}): Promise<MigrationReport> {
  const { directory = sqlDirectory(), lockTimeout = 5_000, patience = 300_000, logger = silentLogger } = options
  const files = await readSqlFiles(directory)
  const applied: string[] = []
  const functions: string[] = []
  const waiting = createWaiting(patience, logger)
  for (;;) {
    try {
      const state = await readState(db, db.schema)
      const plan = planMigration(files, state, db.schema)
      const [next] = plan.migrations
      if (!next && plan.functions.length === 0) return { applied, functions, release: state.release }
      const outcome = await step(db, files, { isNew: state.release === 0, next }, lockTimeout)
      if (outcome === 'busy') {
        await waiting.forOthers()
        continue
      }
      waiting.reset()
      if (outcome === 'done') continue
      applied.push(...outcome.applied)
      functions.push(...outcome.functions)
      logger.info({ schema: db.schema, ...outcome }, 'the schema was migrated')
    } catch (error) {
      // A commit with an unknown outcome is safe to continue from: the next round reads what is there.
      if (!isTransient(error)) throw error
      await waiting.afterTrouble(error)
    }
  }
}

function step(
  db: Database,
  files: SqlFiles,
  { isNew, next }: { readonly isNew: boolean; readonly next: MigrationFile | undefined },
  lockTimeout: number,
): Promise<ApplyOutcome> {
  if (isNew) return install(db, files, lockTimeout)
  return next?.online ? applyOnline(db, next) : applyNext(db, files, lockTimeout)
}

function createWaiting(patience: number, logger: Logger) {
  const backoff = createBackoff({ base: 50, cap: 1_000 })
  let lastProgress = performance.now()
  let said = false
  return {
    reset() {
      backoff.reset()
      lastProgress = performance.now()
      said = false
    },
    /** For as long as it takes: the other instance may be building an index for an hour. */
    async forOthers(): Promise<void> {
      if (!said) logger.info({}, 'another instance migrates the schema: waiting for it')
      said = true
      lastProgress = performance.now()
      await sleep(backoff.next())
    },
    async afterTrouble(error: unknown): Promise<void> {
      if (performance.now() - lastProgress > patience) throw error
      const reason =
        codeOf(error) === '55P03' ? 'a long transaction holds a table that the migration needs' : 'database trouble'
      logger.warn({ err: error }, `${reason}: the migration is tried again`)
      await sleep(backoff.next())
    },
  }
}
