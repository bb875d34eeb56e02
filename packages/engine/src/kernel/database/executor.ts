/**
 * One database operation: a name (for prepared statements, metrics and fault points) and its SQL. The SQL names our
 * tables as `holdfast.x`; the schema really in use is put in when it runs.
 */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** Whatever can run our statements: the pool, a transaction of ours, a caller's own transaction. */
export interface Executor {
  run<Row extends object = Record<string, unknown>>(statement: Statement, params?: readonly unknown[]): Promise<Row[]>
}

/**
 * What a caller's own transaction must have. A `pg` client has it as it is; for other libraries it is a
 * three-line adapter, shown in docs/guides/transactions.md.
 */
export interface Queryable {
  query(text: string, params?: unknown[]): Promise<{ rows: unknown[] }>
}
