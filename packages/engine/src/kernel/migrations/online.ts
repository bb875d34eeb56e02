import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../database/database.js'
import type { DirectConnection } from '../database/direct.js'
import { quoteIdentifier } from '../database/schema-name.js'
import { type FileStatement, splitStatements } from '../database/statements.js'
import { type ApplyOutcome, execute, recordMigration, settle } from './apply.js'
import type { MigrationFile } from './files.js'
import { tryMigrationLock } from './lock.js'
import { malformed } from './malformed.js'
import { readState } from './state.js'

const CREATE_INDEX = /^create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(\w+)\s/i
/** The statements that an online file may have: they block no reader or writer, and can be run again. */
const ALLOWED = [
  CREATE_INDEX,
  /^drop\s+index\s+concurrently\s+if\s+exists\s/i,
  /^alter\s+table\s+\S+\s+validate\s+constraint\s/i,
]

/**
 * Applies an online file: statements that take long while other sessions continue, and that PostgreSQL does not run
 * inside a transaction. One connection holds the lock of the migrations in a transaction (without a snapshot, or the
 * build would wait for it); another one builds. The next start continues what was interrupted.
 */
export async function applyOnline(db: Database, file: MigrationFile): Promise<ApplyOutcome> {
  const statements = checkedStatements(file)
  const holder = await db.connect()
  try {
    await holder.query('begin isolation level read committed')
    await settle(holder, 0)
    if (!(await tryMigrationLock(holder, db.schema))) return 'busy'
    if ((await readState(holder, db.schema)).migrations.has(file.version)) return 'done'
    // A query with parameters leaves its portal, and with it a snapshot, open until the next command of the transaction.
    await holder.query('select')
    await build(db, file, statements)
    await recordMigration(holder, file)
    await holder.query('commit')
    return { applied: [file.name], functions: [] }
  } finally {
    await holder.close()
  }
}

/** The statements of an online file, if it holds nothing else than what may stand there. */
export function checkedStatements(file: MigrationFile): FileStatement[] {
  const statements = splitStatements(file.text)
  for (const { text, line } of statements) {
    if (!ALLOWED.some((pattern) => pattern.test(text))) {
      throw malformed(
        file.name,
        `line ${line}: an online file holds only create index concurrently if not exists, drop index concurrently if exists, and alter table … validate constraint`,
      )
    }
  }
  return statements
}

async function build(db: Database, file: MigrationFile, statements: readonly FileStatement[]): Promise<void> {
  const builder = await db.connect()
  try {
    await prepareSession(builder)
    for (const { text, line } of statements) {
      const [, index] = CREATE_INDEX.exec(text) ?? []
      if (index !== undefined) await dropUnfinished(db, builder, index)
      await execute(file.name, db.sql(text), (sql) => builder.query(sql, undefined, 0), line)
    }
  } finally {
    await builder.close()
  }
}

/**
 * A role's statement_timeout would end every build, and the expression of an index must not call an operator that another role has
 * planted in its search path. Through a pooler the settings would stay behind for other clients.
 */
async function prepareSession(builder: DirectConnection): Promise<void> {
  if (await builder.isPooled()) return
  await builder.query('set search_path = pg_catalog')
  await builder.query('set statement_timeout = 0')
  await builder.query('set lock_timeout = 0')
}

const findUnfinished = {
  name: 'find unfinished index',
  text: `
    select exists (
      select from pg_catalog.pg_stat_progress_create_index progress where progress.index_relid = class.oid
    ) as "inProgress"
    from pg_catalog.pg_class class
    join pg_catalog.pg_namespace namespace on namespace.oid = class.relnamespace
    join pg_catalog.pg_index index on index.indexrelid = class.oid
    where namespace.nspname = $1
      and class.relname = $2
      and not index.indisvalid`,
}

/**
 * An interrupted build leaves an invalid index, which `if not exists` would take for done. If our predecessor was
 * killed, its server process may still be building: then it is waited for.
 */
async function dropUnfinished(db: Database, builder: DirectConnection, index: string): Promise<void> {
  for (;;) {
    const [unfinished] = await builder.run<{ inProgress: boolean }>(findUnfinished, [db.schema, index])
    if (!unfinished) return
    if (!unfinished.inProgress) break
    await sleep(500)
  }
  await builder.query(
    `drop index concurrently if exists ${quoteIdentifier(db.schema)}.${quoteIdentifier(index)}`,
    undefined,
    0,
  )
}
