import type { Executor, Model, Place, TroubleVerb } from '../../kernel/model/index.js'
import type { Conditions, TroubleFilter } from '../filter.js'

/** A piece of work that needs a person. */
export interface Trouble {
  readonly model: Model
  readonly domain: string
  readonly type: string
  /** Of the command, process, workflow instance or item: what its handle is made with. */
  readonly id: string
  readonly key: string | null
  /** The step that failed: `pay`, or `pay#2` where a process uses the name again. Commands and items have none. */
  readonly step: string | null
  readonly code: string
  /** `TRANSIENT`: its attempts are used up. `PERMANENT`: a retry would not have helped. `BUSINESS`: refused. */
  readonly kind: string
  readonly message: string
  /** The same for all failures of one group. */
  readonly fingerprint: string
  readonly since: Date
  /**
   * Which failure of this work it is: another one each time it fails. What an operator does with a record is about this failure only,
   * and is refused after the work has failed again.
   */
  readonly failureId: string
  /** How often it was tried. */
  readonly attempts: number
  /** Where the error was thrown, where that is known. */
  readonly stack: string | null
  /** The operations that are possible. */
  readonly can: readonly TroubleVerb[]
  /**
   * It is unknown whether its last call had its effect. Find out before you act: `retry` with `notDone: true` if it had not, `complete`
   * if it had.
   */
  readonly outcomeUnknown: boolean
  /** Whether a compensation failed, and not the work itself. */
  readonly compensating: boolean
  readonly assignedTo: string | null
}

/**
 * A group of equal failures. Pass it to the operations of `hf.trouble` to act on the failures that it counted: those of its filter, up to
 * its last one. `{ ...group, limit: 1 }` selects the newest of them, and conditions of a filter can be added in the same way.
 */
export interface TroubleGroup extends Pick<Trouble, 'model' | 'domain' | 'type' | 'step' | 'code' | 'fingerprint'> {
  readonly count: number
  readonly firstSeen: Date
  readonly lastSeen: Date
  /** The one that failed last. */
  readonly sample: Pick<Trouble, 'id' | 'message' | 'failureId'>
  /** What `groups` was called with. */
  readonly filter: TroubleFilter
}

/** What a trouble is found by again, and where it stands in the order of lists. */
export interface TroubleKey extends Pick<Trouble, 'model' | 'domain' | 'type' | 'id' | 'step' | 'failureId'> {
  readonly place: string
}

export type TroubleRow = Trouble & Pick<TroubleKey, 'place'>

/** Where a row stands, for the cursor of its page. */
export const placeOf = ({ failureId, place }: Pick<TroubleKey, 'place' | 'failureId'>): Place => ({
  createdAt: new Date(Math.floor(Number(failureId) / 1_000)),
  id: `${failureId} ${place}`,
})

/** Newest first. */
export function listTrouble(executor: Executor, { text, params }: Conditions, limit: number): Promise<TroubleRow[]> {
  return executor.run<TroubleRow & object>({ name: 'trouble.list', text: listText(text, params.length + 1) }, [
    ...params,
    limit,
  ])
}

export async function countTrouble(executor: Executor, { text, params }: Conditions): Promise<number> {
  const [row] = await executor.run<{ count: number }>({ name: 'trouble.count', text: countText(text) }, params)
  return row?.count ?? 0
}

/** The most frequent first. */
export async function groupTrouble(
  executor: Executor,
  { text, params }: Conditions,
  limit: number,
): Promise<Omit<TroubleGroup, 'filter'>[]> {
  type Row = Omit<TroubleGroup, 'sample' | 'filter'> & {
    readonly sampleId: string
    readonly sampleMessage: string
    readonly failureId: string
  }
  const statement = { name: 'trouble.group', text: groupText(text, params.length + 1) }
  const rows = await executor.run<Row>(statement, [...params, limit])
  return rows.map(({ sampleId, sampleMessage, failureId, ...row }) => ({
    ...row,
    sample: { id: sampleId, message: sampleMessage, failureId },
  }))
}

/** Like a list, with no more than it takes to act on them. */
export function findKeys(executor: Executor, { text, params }: Conditions, limit: number): Promise<TroubleKey[]> {
  const statement = { name: 'trouble.find-keys', text: keysText(text, params.length + 1) }
  return executor.run<TroubleKey & object>(statement, [...params, limit])
}

/** The moment of the failure in microseconds since 1970: a `Date` would lose three digits. */
const FAILURE_ID = '(extract(epoch from since) * 1000000::numeric)::int8::text as "failureId"'

const KEY = `model, domain, type, id, step, place, ${FAILURE_ID}`

const listText = (conditions: string, limit: number) => `
    select ${KEY}, key, code, kind, message, fingerprint, since, attempts, stack, can, outcome_unknown as "outcomeUnknown",
      compensating, assigned_to as "assignedTo"
    from holdfast.trouble
    where ${conditions}
    order by since desc, place desc
    limit $${limit}`

const keysText = (conditions: string, limit: number) => `
    select ${KEY}
    from holdfast.trouble
    where ${conditions}
    order by since desc, place desc
    limit $${limit}`

const countText = (conditions: string) => `
    select pg_catalog.count(*)::int as count from holdfast.trouble where ${conditions}`

const groupText = (conditions: string, limit: number) => `
    with alike as (
      select model, domain, type, step, code, fingerprint, pg_catalog.count(*)::int as count,
        pg_catalog.min(since) as "firstSeen", pg_catalog.max(since) as "lastSeen"
      from holdfast.trouble
      where ${conditions}
      group by model, domain, type, step, code, fingerprint
      order by pg_catalog.count(*) desc, pg_catalog.max(since) desc, fingerprint
      limit $${limit}
    )
    select alike.*, sample.id as "sampleId", sample.message as "sampleMessage", sample."failureId"
    from alike
    cross join lateral (
      select trouble.id, trouble.message, ${FAILURE_ID}
      from holdfast.trouble
      where trouble.fingerprint = alike.fingerprint
        and trouble.since = alike."lastSeen"
        and trouble.model = alike.model
        and trouble.domain = alike.domain
        and trouble.type = alike.type
        and trouble.step is not distinct from alike.step
      order by trouble.place desc
      limit 1
    ) as sample
    order by alike.count desc, alike."lastSeen" desc, alike.fingerprint`
