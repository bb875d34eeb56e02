import type { Executor } from '../kernel/database/executor.js'
import { amongOthers } from './install/contention.js'
import { explainQueueError } from './queue-errors.js'

const createQueueStatement = { name: 'queue.create', text: 'select pgmq.create($1)' }

const queueExistsStatement = {
  name: 'queue.exists',
  text: `
    select exists (
      select from pg_catalog.pg_class class
      join pg_catalog.pg_namespace namespace on namespace.oid = class.relnamespace
      where namespace.nspname = 'pgmq'
        and class.relname = 'q_' || $1::text
        and class.relkind in ('r', 'p')
    ) as found`,
}

/** Milliseconds after which creating a queue gives up during an outage of the database. */
export const PATIENCE = 30_000

/** The queues that are known to exist, so that a send does not query each time; by database, because tests open many. */
const known = new WeakMap<Executor, Map<string, Promise<unknown>>>()

/**
 * Makes a queue unless it is there, and asks the database only once. The name is the one PGMQ knows (`queueNameFor`).
 * Never inside a caller's transaction: its locks would stay until the commit, and others would wait.
 *
 * @example
 * await ensureQueue(db, queueNameFor(db.schema, 'orders__replies'))
 */
export async function ensureQueue(db: Executor, queue: string): Promise<void> {
  await once(db, queue, () => createIfMissing(db, queue))
}

/** After a queue was found missing: the next `ensureQueue` queries again. */
export function forgetQueue(db: Executor, queue: string): void {
  const made = known.get(db)
  for (const key of made?.keys() ?? []) if (key === queue || key.startsWith(`${queue} `)) made?.delete(key)
}

export async function queueExists(db: Executor, queue: string): Promise<boolean> {
  const [row] = await db.run<{ found: boolean }>(queueExistsStatement, [queue])
  return row?.found === true
}

/** Runs something once per database and key; callers at the same moment share it, and a failure is not remembered. */
export function once(db: Executor, key: string, make: () => Promise<unknown>): Promise<unknown> {
  const made = known.get(db) ?? new Map<string, Promise<unknown>>()
  known.set(db, made)
  const before = made.get(key)
  if (before) return before
  const making = make().catch((error: unknown) => {
    made.delete(key)
    throw error
  })
  made.set(key, making)
  return making
}

/** Checked first: `pgmq.create` of an existing queue waits for all transactions that write to it (its indexes lock it). */
function createIfMissing(db: Executor, queue: string): Promise<true> {
  return amongOthers(
    async () => {
      if (!(await queueExists(db, queue))) await createQueue(db, queue)
      return true as const
    },
    { patience: PATIENCE },
  )
}

export async function createQueue(db: Executor, queue: string): Promise<void> {
  try {
    await db.run(createQueueStatement, [queue])
  } catch (error) {
    throw explainQueueError(error, queue)
  }
}
