import { enqueueTiny, installTinyModel } from '@holdfast/acceptance/tiny-model'
import { type Database, migrate, openDatabase } from 'holdfast/internal'
import type { Task } from '../../harness/workload.js'

/** The one type of all items. */
export const TYPE = 'bench'
const PER_INSERT = 10_000

/** Finished items have no due time. */
export const anythingLeft = 'select exists (select from holdfast.tiny where due_at is not null)'

/** All systems work on the same table with the same indexes and the same audit trail, filled in the same way. */
export async function fillTiny(
  { connectionString, items }: Task,
  more?: (db: Database) => Promise<void>,
): Promise<void> {
  const db = await openDatabase({ connectionString, poolSize: 2 })
  try {
    await migrate(db)
    await installTinyModel(db)
    for (let left = items; left > 0; left -= PER_INSERT) await enqueueTiny(db, TYPE, Math.min(left, PER_INSERT))
    await more?.(db)
  } finally {
    await db.close()
  }
}
