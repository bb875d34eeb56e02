import { entry } from './entry.js'

/** What the database, its schema and its queues cannot do or did not say. */
export const databaseErrors = {
  HF_DATABASE_UNREACHABLE: entry<{ target: string; problem: string }>(
    503,
    (d) => `cannot reach PostgreSQL at ${d.target}: ${d.problem}`,
    'Check that the server runs and that the connection string (host, port, user, database) is right.',
  ),
  HF_DATABASE_UNAVAILABLE: entry<{ operation: string; waited: string; problem: string }>(
    503,
    (d) => `${d.operation} got no response from PostgreSQL within ${d.waited}: ${d.problem}`,
    'The outcome may be unknown. Repeat the call with the same id: it is done once.',
  ),
  HF_OUTCOME_UNKNOWN: entry<{ operation: string; problem: string }>(
    503,
    (d) =>
      `the connection to PostgreSQL was lost during ${d.operation}; it may or may not have been applied: ${d.problem}`,
    'Repeat the call with the same id: it is done once. After an operation of an operator, look first.',
  ),
  HF_TRANSACTION_FAILED: entry<object>(
    500,
    () => 'the transaction was rolled back: one of its statements failed and the error was not passed on',
    'Let the error of a failed statement reach the end of the transaction; nothing was written.',
  ),
  HF_TRANSACTION_CONTROL: entry<{ statement: string; problem: string }>(
    500,
    (d) => `\`${d.statement}\` ${d.problem}; it was not run, and the transaction is rolled back`,
    'Leave begin, commit and rollback to Holdfast: return to commit, throw to roll back, use savepoints within. Use `set local` for settings.',
  ),
  HF_TRANSACTION_ENDED: entry<{ problem: string }>(
    500,
    (d) => `a statement of the user's code ${d.problem}`,
    'What the code wrote up to there may be committed, and nothing was recorded. Look at your tables, remove the statement, then retry.',
  ),
  HF_NOT_IN_TRANSACTION: entry<object>(
    400,
    () => 'the client given as `transaction` has no transaction open',
    'Run `begin` on the client first, or leave `transaction` out; nothing was written.',
  ),
  HF_BUSY: entry<{ operation: string; waited: string; problem: string }>(
    409,
    (d) => `${d.operation} was given up after ${d.waited}: ${d.problem}`,
    'Nothing was changed. Try again when the other transaction has ended; pg_stat_activity shows which session has locked the row.',
  ),
  HF_DATABASE_TOO_OLD: entry<{ version: string }>(
    500,
    (d) => `PostgreSQL ${d.version} is too old`,
    'Use PostgreSQL 14 or newer.',
  ),
  HF_NOT_PERMITTED: entry<{ operation: string; problem: string; remedy: string }>(
    403,
    (d) => `PostgreSQL does not permit to ${d.operation}: ${d.problem}. ${d.remedy}`,
    'Ask an administrator to grant the right or to run the step once; nothing was changed.',
  ),
  HF_SCHEMA_TOO_NEW: entry<{ schema: string; found: number; known: number }>(
    500,
    (d) =>
      `schema "${d.schema}" is of release ${d.found}; this version of holdfast is of release ${d.known} and runs on releases up to ${d.known + 1}`,
    'Upgrade the holdfast package of this service, or point it at the schema it belongs to.',
  ),
  HF_SCHEMA_TOO_OLD: entry<{ schema: string; missing: string }>(
    500,
    (d) => `schema "${d.schema}" lacks ${d.missing}`,
    'Run the migrations with a role that may (open holdfast once with `migrate: true`).',
  ),
  HF_SCHEMA_DAMAGED: entry<{ schema: string; problem: string }>(
    500,
    (d) => `schema "${d.schema}" lacks something that this version of holdfast made: ${d.problem}`,
    'The schema was renamed, dropped, or restored in part. Restore it under its old name, or open holdfast again to migrate it.',
  ),
  HF_DATABASE_ERROR: entry<{ operation: string; state: string; problem: string }>(
    500,
    (d) => `PostgreSQL refused ${d.operation} (SQLSTATE ${d.state}): ${d.problem}`,
    'Nothing was changed by this call. The SQLSTATE says what PostgreSQL objects to; `cause` is its own error.',
  ),
  HF_MIGRATION_CHANGED: entry<{ file: string; problem: string }>(
    500,
    (d) => `${d.file} ${d.problem}`,
    'A landed migration is never edited, and a changed function file raises its revision: add a new file or raise the number.',
  ),
  HF_MIGRATION_FAILED: entry<{ file: string; problem: string }>(
    500,
    (d) => `${d.file} failed: ${d.problem}`,
    'Correct the cause named in the message and start again: what was applied is kept, what failed was rolled back.',
  ),
  HF_QUEUE_UNAVAILABLE: entry<{ problem: string }>(
    500,
    (d) => `the message queue PGMQ cannot be used: ${d.problem}`,
    'Open holdfast once with a role that may install PGMQ; a schema `pgmq` that is not PGMQ has to be renamed or dropped.',
  ),
  HF_QUEUE_TOO_OLD: entry<{ version: string; needed: string }>(
    500,
    (d) => `the extension pgmq of this database is of version ${d.version}; ${d.needed} is the oldest that works`,
    'Install a newer PGMQ on the server and run `alter extension pgmq update`.',
  ),
  HF_QUEUE_NOT_FOUND: entry<{ queue: string }>(
    404,
    (d) => `there is no queue \`${d.queue}\``,
    'Create the queue or correct its name; sending to it outside a transaction creates it.',
  ),
}
