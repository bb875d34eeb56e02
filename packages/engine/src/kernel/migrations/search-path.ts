import type { Queryable } from '../database/executor.js'

/**
 * Fixes the search path of all functions of a schema that do not have one. Without it, names and operators inside a
 * function are looked up in the caller's path, where any role that may create in `public` can plant a better match (an operator
 * `*` of int and interval, say) that then runs with the rights of the worker.
 *
 * Here, once, after every file, rather than as a line of each function. Left out are functions with a body of the SQL standard
 * (`begin atomic`), whose names were bound when they were created: the ones that PostgreSQL has to be able to inline. In them
 * a SET clause would prevent that.
 */
export async function fixSearchPaths(transaction: Queryable, schema: string): Promise<void> {
  const { rows } = await transaction.query(findStatement, [schema])
  const unfixed = (rows as { name: string }[]).map(({ name }) => name)
  if (unfixed.length === 0) return
  await transaction.query(unfixed.map((name) => `alter routine ${name} set search_path = ${SEARCH_PATH}`).join(';\n'))
}

/** The temporary schema last, because it would otherwise come first for tables and types. */
const SEARCH_PATH = 'pg_catalog, pg_temp'

const findStatement = `
  select proc.oid::pg_catalog.regprocedure::text as name
  from pg_catalog.pg_proc proc
  join pg_catalog.pg_namespace namespace on namespace.oid = proc.pronamespace
  where namespace.nspname = $1::text
    and proc.prosqlbody is null
    and proc.prokind in ('f', 'p')
    and pg_catalog.pg_has_role(proc.proowner, 'usage')
    and not exists (
      select from pg_catalog.unnest(proc.proconfig) as setting where setting like 'search_path=%'
    )`
