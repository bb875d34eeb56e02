import type { Database } from '../kernel/database/database.js'
import type { Statement } from '../kernel/database/executor.js'
import { queueNameFor } from './names.js'
import { explainQueueError } from './queue-errors.js'

/** Runs a statement whose first parameter is the queue, and turns errors of PGMQ into errors of ours. */
export async function callQueue<Row extends object>(
  db: Database,
  name: string,
  statement: Statement,
  ...params: unknown[]
): Promise<Row[]> {
  const queue = queueNameFor(db.schema, name)
  try {
    return await db.run<Row>(statement, [queue, ...params])
  } catch (error) {
    throw explainQueueError(error, queue)
  }
}
