import type { Executor } from '../database/executor.js'
import { quoteIdentifier } from '../database/schema-name.js'
import { HoldfastError } from '../errors.js'

interface Rights {
  readonly role: string
  readonly database: string
  readonly exists: boolean
  readonly may_create_schema: boolean
  readonly may_create_tables: boolean
}

const readRights = {
  name: 'read rights',
  text: `
    select
      current_user::text as role,
      pg_catalog.current_database()::text as database,
      namespace.oid is not null as exists,
      pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') as may_create_schema,
      coalesce(
        pg_catalog.has_schema_privilege(namespace.oid, 'usage') and pg_catalog.has_schema_privilege(namespace.oid, 'create'),
        false
      ) as may_create_tables
    from (values (1)) one
    left join pg_catalog.pg_namespace namespace on namespace.nspname = $1`,
}

/**
 * Asked before anything is done: `create schema if not exists` needs the right to create schemas even where an
 * administrator has created this one.
 */
export async function schemaMustBeCreated(executor: Executor, schema: string): Promise<boolean> {
  const [rights] = await executor.run<Rights>(readRights, [schema])
  if (!rights) throw new Error('PostgreSQL did not say what this role may do')
  if (rights.exists && !rights.may_create_tables) throw mayNotCreateTables(rights, schema)
  if (!rights.exists && !rights.may_create_schema) throw mayNotCreateSchema(rights, schema)
  return !rights.exists
}

function mayNotCreateSchema({ role, database }: Rights, schema: string): HoldfastError {
  return new HoldfastError('HF_NOT_PERMITTED', {
    operation: `create the schema ${quoteIdentifier(schema)} in the database ${quoteIdentifier(database)}`,
    problem: `the role ${quoteIdentifier(role)} has no right to create schemas there`,
    remedy: `An administrator can run: create schema ${quoteIdentifier(schema)} authorization ${quoteIdentifier(role)};`,
  })
}

function mayNotCreateTables({ role, database }: Rights, schema: string): HoldfastError {
  return new HoldfastError('HF_NOT_PERMITTED', {
    operation: `create tables in the schema ${quoteIdentifier(schema)} of the database ${quoteIdentifier(database)}`,
    problem: `the role ${quoteIdentifier(role)} has no right to use and create there`,
    remedy: `An administrator can run: grant usage, create on schema ${quoteIdentifier(schema)} to ${quoteIdentifier(role)};`,
  })
}
