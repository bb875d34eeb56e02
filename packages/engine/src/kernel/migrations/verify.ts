import type { Database } from '../database/database.js'
import { HoldfastError } from '../errors.js'
import { readSqlFiles } from './files.js'
import { planMigration } from './plan.js'
import { sqlDirectory } from './sql-directory.js'
import { readState } from './state.js'

/**
 * For instances that may not migrate: is the schema one that this library runs on? Changes nothing.
 *
 * @example
 * await verifySchema(db)  // throws HF_SCHEMA_TOO_OLD or HF_SCHEMA_TOO_NEW
 */
export async function verifySchema(db: Database, directory = sqlDirectory()): Promise<{ release: number }> {
  const files = await readSqlFiles(directory)
  const state = await readState(db, db.schema)
  const { migrations, functions } = planMigration(files, state, db.schema)
  const missing = [
    ...migrations.map(({ name }) => `migration ${name}`),
    ...functions.map(({ name, revision }) => `revision ${revision} of the functions ${name}`),
  ]
  if (missing.length > 0)
    throw new HoldfastError('HF_SCHEMA_TOO_OLD', { schema: db.schema, missing: missing.join(', ') })
  return { release: state.release }
}
