import { HoldfastError } from '../errors.js'
import type { FunctionFile, MigrationFile, SqlFiles } from './files.js'
import type { SchemaState } from './state.js'

export interface MigrationPlan {
  readonly migrations: readonly MigrationFile[]
  readonly functions: readonly FunctionFile[]
}

/**
 * What a schema lacks of these files. Refuses a schema that is too new for them (release N runs on the schema of
 * N + 1, not beyond) and files that were edited after they had been applied.
 */
export function planMigration(files: SqlFiles, state: SchemaState, schema: string): MigrationPlan {
  if (state.release > files.release + 1) {
    throw new HoldfastError('HF_SCHEMA_TOO_NEW', { schema, found: state.release, known: files.release })
  }
  return {
    migrations: files.migrations.filter((file) => !isApplied(file, state)),
    functions: files.functions.filter((file) => !isCurrent(file, state)),
  }
}

function isApplied(file: MigrationFile, state: SchemaState): boolean {
  const applied = state.migrations.get(file.version)
  if (applied && (applied.checksum !== file.checksum || applied.name !== file.name)) {
    throw new HoldfastError('HF_MIGRATION_CHANGED', {
      file: `${file.name}.sql`,
      problem: `is not the file that was applied as ${applied.name}.sql`,
    })
  }
  return applied !== undefined
}

/** An older instance that restarts has a lower revision than the schema: it leaves the newer functions alone. */
function isCurrent(file: FunctionFile, state: SchemaState): boolean {
  const applied = state.functions.get(file.name)
  if (!applied || applied.revision < file.revision) return false
  if (applied.revision === file.revision && applied.checksum !== file.checksum) {
    throw new HoldfastError('HF_MIGRATION_CHANGED', {
      file: `functions/${file.name}.sql`,
      problem: `was changed, but its revision is still ${file.revision}`,
    })
  }
  return true
}
