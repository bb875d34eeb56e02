import type { Database } from '../database/database.js'
import type { Executor, Queryable } from '../database/executor.js'
import type { Transaction } from '../database/transaction.js'
import { isTransient } from '../database/transient.js'
import { HoldfastError } from '../errors.js'
import type { FunctionFile, MigrationFile, SqlFiles } from './files.js'
import { tryMigrationLock } from './lock.js'
import { planMigration } from './plan.js'
import { markFunctions } from './public-functions.js'
import { fixSearchPaths } from './search-path.js'
import { readState } from './state.js'

/** `busy`: another instance holds the lock. `done`: there was nothing left to do when we got it. */
export type ApplyOutcome = 'busy' | 'done' | AppliedFiles

/** The names of the files that one transaction applied. */
interface AppliedFiles {
  readonly applied: readonly string[]
  readonly functions: readonly string[]
}

const noteMigration = {
  name: 'note migration',
  text: 'insert into holdfast.migration (version, name, release, checksum) values ($1, $2, $3, $4)',
}

const noteFunctions = {
  name: 'note function file',
  text: `
    insert into holdfast.function_file (name, revision, checksum) values ($1, $2, $3)
    on conflict (name) do update
    set revision = excluded.revision, checksum = excluded.checksum, applied_at = excluded.applied_at`,
}

/** Applies the next file that needs no special care, with the note that it was applied, in one transaction. */
export function applyNext(db: Database, files: SqlFiles, lockTimeout: number): Promise<ApplyOutcome> {
  return db.transaction(async (tx) => {
    await settle(tx, lockTimeout)
    if (!(await tryMigrationLock(tx, db.schema))) return 'busy'
    const plan = planMigration(files, await readState(tx, db.schema), db.schema)
    const [migration] = plan.migrations
    if (migration) return migration.online ? 'done' : applyMigration(db, tx, migration)
    const [functions] = plan.functions
    return functions ? applyFunctions(db, tx, functions) : 'done'
  })
}

/**
 * The settings of this transaction. A migration that waits for a table lock makes all other sessions queue behind it, so it
 * waits for a moment only. The search path is emptied because every name in our files is written in full.
 */
export async function settle(transaction: Queryable, lockTimeout: number): Promise<void> {
  const text = `
    select
      pg_catalog.set_config('lock_timeout', $1::text, true),
      pg_catalog.set_config('statement_timeout', '0', true),
      pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
      pg_catalog.set_config('search_path', 'pg_catalog', true)`
  await transaction.query(text, [String(lockTimeout)])
}

async function applyMigration(db: Database, tx: Transaction, file: MigrationFile): Promise<ApplyOutcome> {
  await execute(file.name, db.sql(file.text), (text) => tx.query(text, undefined, 0))
  await fixSearchPaths(tx, db.schema)
  await recordMigration(tx, file)
  return { applied: [file.name], functions: [] }
}

export async function recordMigration(
  executor: Executor,
  { version, name, release, checksum }: MigrationFile,
): Promise<void> {
  await executor.run(noteMigration, [version, name, release, checksum])
}

async function applyFunctions(db: Database, tx: Transaction, file: FunctionFile): Promise<ApplyOutcome> {
  await createFunctions(db, tx, file)
  await fixSearchPaths(tx, db.schema)
  await markFunctions(tx, db.schema)
  return { applied: [], functions: [file.name] }
}

/** Creates the functions of a file, and records it. */
export async function createFunctions(db: Database, tx: Transaction, file: FunctionFile): Promise<void> {
  await execute(`functions/${file.name}`, db.sql(file.text), (text) => tx.query(text, undefined, 0))
  await tx.run(noteFunctions, [file.name, file.revision, file.checksum])
}

/** Runs SQL of a file and says in which file and line it failed. Transient errors are not changed. */
export async function execute(
  file: string,
  text: string,
  run: (text: string) => Promise<unknown>,
  firstLine = 1,
): Promise<void> {
  try {
    await run(text)
  } catch (error) {
    if (isTransient(error)) throw error
    throw new HoldfastError(
      'HF_MIGRATION_FAILED',
      { file: `${file}.sql`, problem: problemOf(error, text, firstLine) },
      { cause: error },
    )
  }
}

function problemOf(error: unknown, text: string, firstLine: number): string {
  const message = error instanceof Error ? error.message : String(error)
  const position = error instanceof Error && 'position' in error ? Number(error.position) : Number.NaN
  if (Number.isNaN(position)) return firstLine === 1 ? message : `line ${firstLine}: ${message}`
  const line = firstLine + text.slice(0, position - 1).split('\n').length - 1
  return `line ${line}: ${message}`
}
