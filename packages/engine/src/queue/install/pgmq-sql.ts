import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** PGMQ's own SQL, as the build has taken it out of the package that carries it (scripts/extract-pgmq.mjs). */
export interface PgmqSql {
  readonly version: string
  readonly text: string
}

const SCHEMA_STATEMENT = 'CREATE SCHEMA IF NOT EXISTS pgmq;'

/**
 * Without the statement that makes the schema: even `if not exists` needs the right to create schemas, which a role
 * lacks for whom an administrator has made this one. The code that installs it creates the schema where it is missing.
 */
export async function readPgmqSql(): Promise<PgmqSql> {
  const file = pgmqFile()
  const text = await readFile(file, 'utf8')
  const [, version] = /^-- PGMQ (\d+\.\d+\.\d+)/.exec(text) ?? []
  if (version === undefined || !text.includes(SCHEMA_STATEMENT)) throw new Error(`${file} is not PGMQ's SQL`)
  return { version, text: text.replace(SCHEMA_STATEMENT, 'NULL;') }
}

/** Looked for upwards, because the same module runs from `src/` and from `dist/`. */
function pgmqFile(): string {
  const own = fileURLToPath(import.meta.url)
  for (let folder = dirname(own); ; folder = dirname(folder)) {
    const file = join(folder, 'dist', 'pgmq', 'pgmq.sql')
    if (existsSync(file)) return file
    if (folder === dirname(folder))
      throw new Error(`dist/pgmq/pgmq.sql is missing above ${own}: \`npm run build\` makes it`)
  }
}
