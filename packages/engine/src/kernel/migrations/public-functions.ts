import type { Queryable } from '../database/executor.js'

/** The functions that programs in other languages and administrators call; docs/reference/sql.md describes them. */
export const PUBLIC_FUNCTIONS: Readonly<Record<string, string>> = {
  send: 'Sends a command.',
  start: 'Starts a process, or an instance of a workflow.',
  respond: 'Tells a process something that it may wait for.',
  decide: 'Confirms or rejects a human step of a workflow.',
  schedule: 'Schedules an item of dispatch.',
  report_end: 'Reports the end of an execution that dispatch began elsewhere.',
  grant_runtime: 'Gives a role the rights that senders and workers need.',
  now: 'The clock of the installation.',
}

/**
 * Says of each function of a schema whether it is public, in its comment: `\df+` shows it. Everything that is not in the list is
 * internal. Here, once, after every file, as for the search path.
 */
export async function markFunctions(transaction: Queryable, schema: string): Promise<void> {
  const { rows } = await transaction.query(findStatement, [schema])
  const statements = (rows as { signature: string; name: string; comment: string | null }[])
    .map(({ signature, name, comment }) => ({ signature, comment, wanted: commentOf(name) }))
    .filter(({ comment, wanted }) => comment !== wanted)
    .map(({ signature, wanted }) => `comment on routine ${signature} is '${wanted}'`)
  if (statements.length > 0) await transaction.query(statements.join(';\n'))
}

function commentOf(name: string): string {
  const described = Object.hasOwn(PUBLIC_FUNCTIONS, name) ? PUBLIC_FUNCTIONS[name] : undefined
  return described ?? INTERNAL
}

/** The same text is in `make_queue_function`, whose functions no migration meets. */
export const INTERNAL = 'internal: may change with every release'

const findStatement = `
  select
    proc.oid::pg_catalog.regprocedure::text as signature,
    proc.proname::text as name,
    pg_catalog.obj_description(proc.oid, 'pg_proc') as comment
  from pg_catalog.pg_proc proc
  join pg_catalog.pg_namespace namespace on namespace.oid = proc.pronamespace
  where namespace.nspname = $1::text
    and proc.prokind in ('f', 'p')
    and pg_catalog.pg_has_role(proc.proowner, 'usage')
  order by 1`
