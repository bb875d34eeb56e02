import type { Executor } from '../database/executor.js'

interface AppliedMigration {
  readonly version: number
  readonly name: string
  readonly release: number
  readonly checksum: string
}

interface AppliedFunctions {
  readonly name: string
  readonly revision: number
  readonly checksum: string
}

/** What was applied to a schema so far. */
export interface SchemaState {
  readonly migrations: ReadonlyMap<number, AppliedMigration>
  readonly functions: ReadonlyMap<string, AppliedFunctions>
  /** The highest release among what was applied; 0 for a schema that does not exist. */
  readonly release: number
}

const findBookkeeping = {
  name: 'find bookkeeping',
  // By the catalogue rather than to_regclass(), which is an error for a role that may not look into the schema.
  text: `
    select pg_catalog.count(*)::int tables
    from pg_catalog.pg_class class
    join pg_catalog.pg_namespace namespace on namespace.oid = class.relnamespace
    where namespace.nspname = $1
      and class.relname in ('migration', 'function_file')
      and class.relkind = 'r'`,
}

/** Two statements, so it goes through the simple protocol. */
export const CREATE_BOOKKEEPING = `
    create table holdfast.migration (
      version int primary key,
      name text not null,
      release int not null,
      checksum text not null,
      applied_at timestamptz not null default pg_catalog.clock_timestamp()
    );
    create table holdfast.function_file (
      name text primary key,
      revision int not null,
      checksum text not null,
      applied_at timestamptz not null default pg_catalog.clock_timestamp()
    );`

const readMigrations = {
  name: 'read migrations',
  text: 'select version, name, release, checksum from holdfast.migration',
}
const readFunctions = {
  name: 'read function files',
  text: 'select name, revision, checksum from holdfast.function_file',
}

export async function hasBookkeeping(executor: Executor, schema: string): Promise<boolean> {
  const [found] = await executor.run<{ tables: number }>(findBookkeeping, [schema])
  return found?.tables === 2
}

export async function readState(executor: Executor, schema: string): Promise<SchemaState> {
  const there = await hasBookkeeping(executor, schema)
  const migrations = there ? await executor.run<AppliedMigration>(readMigrations) : []
  const functions = there ? await executor.run<AppliedFunctions>(readFunctions) : []
  return {
    migrations: new Map(migrations.map((migration) => [migration.version, migration])),
    functions: new Map(functions.map((file) => [file.name, file])),
    release: Math.max(0, ...migrations.map((migration) => migration.release)),
  }
}
