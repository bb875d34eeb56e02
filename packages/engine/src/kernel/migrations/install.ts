import type { Database } from '../database/database.js'
import { quoteIdentifier } from '../database/schema-name.js'
import type { Transaction } from '../database/transaction.js'
import { type ApplyOutcome, createFunctions, execute, recordMigration, settle } from './apply.js'
import type { MigrationFile, SqlFiles } from './files.js'
import { tryMigrationLock } from './lock.js'
import { checkedStatements } from './online.js'
import { markFunctions } from './public-functions.js'
import { schemaMustBeCreated } from './rights.js'
import { fixSearchPaths } from './search-path.js'
import { CREATE_BOOKKEEPING, hasBookkeeping, readState } from './state.js'

/**
 * Applies all files to a schema that has none of them, in one transaction: it is there whole, or not at all. No other session can
 * see its tables before the commit, so that the indexes of online files are built like all others. Built concurrently, each of
 * them would wait for every transaction of the server.
 */
export function install(db: Database, files: SqlFiles, lockTimeout: number): Promise<ApplyOutcome> {
  return db.transaction(async (tx) => {
    await settle(tx, lockTimeout)
    if (!(await tryMigrationLock(tx, db.schema))) return 'busy'
    if ((await readState(tx, db.schema)).release > 0) return 'done'
    await ensureBookkeeping(db, tx)
    for (const file of files.migrations) {
      await createTables(db, tx, file)
      await recordMigration(tx, file)
    }
    for (const file of files.functions) await createFunctions(db, tx, file)
    await fixSearchPaths(tx, db.schema)
    await markFunctions(tx, db.schema)
    return { applied: files.migrations.map(({ name }) => name), functions: files.functions.map(({ name }) => name) }
  })
}

async function ensureBookkeeping(db: Database, tx: Transaction): Promise<void> {
  if (await hasBookkeeping(tx, db.schema)) return
  if (await schemaMustBeCreated(tx, db.schema)) await tx.query(`create schema ${quoteIdentifier(db.schema)}`)
  await tx.query(db.sql(CREATE_BOOKKEEPING))
}

async function createTables(db: Database, tx: Transaction, file: MigrationFile): Promise<void> {
  const parts = file.online ? checkedStatements(file) : [{ text: file.text, line: 1 }]
  for (const { text, line } of parts) {
    const sql = file.online ? text.replace(/ concurrently /i, ' ') : text
    await execute(file.name, db.sql(sql), (statement) => tx.query(statement, undefined, 0), line)
  }
}
