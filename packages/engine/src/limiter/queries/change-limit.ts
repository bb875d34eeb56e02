import { appendAudit, type By } from '../../kernel/audit/audit.js'
import type { Database } from '../../kernel/database/database.js'
import type { Executor } from '../../kernel/database/executor.js'
import { operatorCall } from '../../kernel/database/operator-call.js'
import type { CheckedLimit } from '../check-limit.js'

/** Creates a limit if there is none, and audits it in the same statement; false if there is one. */
export async function defineLimit(db: Database, key: string, limit: CheckedLimit): Promise<boolean> {
  const { model, event, subject } = entryOf('RATE_LIMIT_DEFINED', key)
  const made = await db.run(defineStatement, [
    ...valuesOf(key, limit),
    model,
    event,
    subject.name,
    JSON.stringify(limit),
  ])
  return made.length > 0
}

/** Sets a limit and audits it in the same transaction; false if nothing changed and nothing was written. */
export async function setLimit(db: Database, key: string, limit: CheckedLimit, by: By): Promise<boolean> {
  return operatorCall(db, `set rate limit ${key}`, async (tx) => {
    const before = await addOrLock(tx, key, limit)
    if (before !== null && isSame(before, limit)) return false
    if (before !== null) await tx.run(updateStatement, valuesOf(key, limit))
    await appendAudit(tx, [{ ...entryOf('RATE_LIMIT_SET', key), by, before, after: limit }])
    return true
  })
}

/** Removes a limit with its bucket, audited in the same transaction; false if there was none. */
export async function removeLimit(db: Database, key: string, by: By): Promise<boolean> {
  return operatorCall(db, `remove rate limit ${key}`, async (tx) => {
    const [before] = await tx.run<CheckedLimit>(removeStatement, [key])
    if (!before) return false
    await tx.run(removeBucketStatement, [key])
    await appendAudit(tx, [{ ...entryOf('RATE_LIMIT_REMOVED', key), by, before }])
    return true
  })
}

/** Null when it was added; else the existing limit, locked. Waits for another transaction that sets the same key. */
async function addOrLock(tx: Executor, key: string, limit: CheckedLimit): Promise<CheckedLimit | null> {
  for (;;) {
    const added = await tx.run(insertStatement, valuesOf(key, limit))
    if (added.length > 0) return null
    const [there] = await tx.run<CheckedLimit>(lockStatement, [key])
    // Otherwise it was removed between the two.
    if (there) return there
  }
}

const valuesOf = (key: string, { ticketsPerSecond, burst, description }: CheckedLimit) => [
  key,
  ticketsPerSecond,
  burst,
  description,
]

const entryOf = (event: string, key: string) => ({
  model: 'limits',
  event,
  subject: { name: `rate_limit:${key}` },
})

function isSame(one: CheckedLimit, other: CheckedLimit): boolean {
  return (
    one.ticketsPerSecond === other.ticketsPerSecond &&
    one.burst === other.burst &&
    one.description === other.description
  )
}

const columns = 'tickets_per_second as "ticketsPerSecond", burst, description'

const insertStatement = {
  name: 'limits.add',
  text: `
    insert into holdfast.rate_limit (resource_key, tickets_per_second, burst, description)
    values ($1, $2, $3, $4)
    on conflict (resource_key) do nothing
    returning resource_key`,
}

// One statement, so that of services that start at once one makes the limit, and a limit that an operator sets meanwhile
// is left alone.
const defineStatement = {
  name: 'limits.define',
  text: `
    with made as (
      insert into holdfast.rate_limit (resource_key, tickets_per_second, burst, description)
      values ($1, $2, $3, $4)
      on conflict (resource_key) do nothing
      returning resource_key
    )
    insert into holdfast.audit (at, model, event, subject_name, after)
    select holdfast.now(), $5::text, $6::text, $7::text, $8::text::jsonb
    from made
    returning event`,
}

const lockStatement = {
  name: 'limits.lock',
  text: `select ${columns} from holdfast.rate_limit where resource_key = $1 for no key update`,
}

const updateStatement = {
  name: 'limits.update',
  text: `
    update holdfast.rate_limit
    set tickets_per_second = $2, burst = $3, description = $4
    where resource_key = $1`,
}

const removeStatement = {
  name: 'limits.remove',
  text: `delete from holdfast.rate_limit where resource_key = $1 returning ${columns}`,
}

const removeBucketStatement = {
  name: 'limits.remove-bucket',
  text: 'delete from holdfast.rate_limit_bucket where resource_key = $1',
}
