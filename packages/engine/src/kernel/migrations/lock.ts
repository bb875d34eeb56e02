import { createHash } from 'node:crypto'
import type { Queryable } from '../database/executor.js'

/**
 * Takes the lock of this schema's migrations until the transaction ends; false if another instance has it.
 *
 * Tried rather than waited for: a session that waits inside a statement holds a snapshot, an index that is being built
 * concurrently waits for all older snapshots, and the two would wait for each other.
 */
export async function tryMigrationLock(transaction: Queryable, schema: string): Promise<boolean> {
  const { rows } = await transaction.query('select pg_catalog.pg_try_advisory_xact_lock($1::text::bigint) locked', [
    keyOf(schema),
  ])
  const [row] = rows as [{ locked: boolean }]
  return row.locked
}

function keyOf(schema: string): string {
  return createHash('sha256').update(`holdfast migrations of ${schema}`).digest().readBigInt64BE().toString()
}
