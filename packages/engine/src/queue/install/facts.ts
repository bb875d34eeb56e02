import type { Executor } from '../../kernel/database/executor.js'

/** One function of the schema `pgmq`: its argument types as PostgreSQL writes them, and how many have no default. */
export interface PgmqFunction {
  readonly name: string
  readonly args: readonly string[]
  readonly required: number
}

/** What this database has of PGMQ, and what our role may do about it. */
export interface PgmqFacts {
  readonly role: string
  readonly database: string
  /** The version of the extension in this database. */
  readonly extension: string | null
  /** The version that `create extension` would install. */
  readonly available: string | null
  readonly mayCreateExtension: boolean
  readonly mayCreateSchema: boolean
  readonly schemaExists: boolean
  readonly ownsSchema: boolean
  /** Whether the schema is empty. An administrator may have created it for us. */
  readonly schemaIsEmpty: boolean
  readonly comment: string | null
  readonly mayUse: boolean
  readonly functions: readonly PgmqFunction[]
}

export async function readFacts(executor: Executor): Promise<PgmqFacts> {
  const [facts] = await executor.run<PgmqFacts>(readFactsStatement)
  if (!facts) throw new Error('PostgreSQL did not say what it has of PGMQ')
  return facts
}

// From the catalogs rather than by to_regproc and the like, which raise an error where the role may not use the schema.
const readFactsStatement = {
  name: 'queue.read facts',
  text: `
    select
      current_user::text as role,
      pg_catalog.current_database()::text as database,
      (select extversion from pg_catalog.pg_extension where extname = 'pgmq') as extension,
      offered.version as available,
      coalesce(
        (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
          or (offered.trusted and database.may_create)
          or (not offered.superuser and (database.may_create or pg_catalog.has_schema_privilege(namespace.oid, 'create'))),
        false
      ) as "mayCreateExtension",
      database.may_create as "mayCreateSchema",
      namespace.oid is not null as "schemaExists",
      coalesce(pg_catalog.pg_has_role(namespace.nspowner, 'usage'), false) as "ownsSchema",
      namespace.oid is not null
        and not exists (select from pg_catalog.pg_class where relnamespace = namespace.oid)
        and not exists (select from pg_catalog.pg_proc where pronamespace = namespace.oid)
        and not exists (select from pg_catalog.pg_type where typnamespace = namespace.oid) as "schemaIsEmpty",
      pg_catalog.obj_description(namespace.oid, 'pg_namespace') as comment,
      coalesce(
        pg_catalog.has_schema_privilege(namespace.oid, 'usage') and pg_catalog.has_table_privilege(meta.oid, 'select'),
        false
      ) as "mayUse",
      coalesce(functions.list, '[]') as functions
    from (select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') as may_create) database
    left join pg_catalog.pg_namespace namespace on namespace.nspname = 'pgmq'
    left join pg_catalog.pg_class meta on meta.relnamespace = namespace.oid and meta.relname = 'meta'
    left join (
      select versions.version, versions.superuser, versions.trusted
      from pg_catalog.pg_available_extensions extensions
      join pg_catalog.pg_available_extension_versions versions
        on versions.name = extensions.name and versions.version = extensions.default_version
      where extensions.name = 'pgmq'
    ) offered on true
    left join lateral (
      select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
        'name', proc.proname,
        'args', array(
          select pg_catalog.format_type(arg.type, null)
          from pg_catalog.unnest(proc.proargtypes::oid[]) with ordinality as arg (type, position)
          order by arg.position
        ),
        'required', proc.pronargs - proc.pronargdefaults
      )) as list
      from pg_catalog.pg_proc proc
      where proc.pronamespace = namespace.oid
    ) functions on true`,
}
