import type { FailureGroup, TroubleFilter } from '../../commands/index.js'
import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'

export interface TroubledProcess {
  readonly id: string
  readonly key: string | null
  readonly domain: string
  readonly type: string
  readonly since: Date
  /** Where it stands: the call that failed, as `resolve` wants it named; null where none did. */
  readonly step: string | null
  readonly error: {
    readonly kind: string
    readonly code: string
    readonly message: string
    /** Where it was thrown, where that is known. */
    readonly stack?: string
  }
  readonly fingerprint: string
  readonly batchId: string | null
  readonly state: unknown
}

type Row = Omit<TroubledProcess, 'error'> & {
  readonly kind: string
  readonly code: string
  readonly message: string
  readonly stack: string | null
  readonly notes: Notes | null
}

/** What is in troubleshooting, the longest first. */
export async function listProcessTrouble(
  executor: Executor,
  codec: Codec,
  filter: TroubleFilter,
): Promise<TroubledProcess[]> {
  const rows = await executor.run<Row>(listStatement, [...conditions(filter), filter.limit ?? 100])
  return rows.map(({ kind, code, message, stack, notes, state, ...row }) => ({
    ...row,
    error: { kind, code, message, ...(stack === null ? {} : { stack }) },
    state: decodeOrRaw(codec, state, notes),
  }))
}

export async function countProcessTrouble(executor: Executor, filter: TroubleFilter): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, conditions(filter))
  return row?.count ?? 0
}

export async function groupProcessTrouble(executor: Executor, filter: TroubleFilter): Promise<FailureGroup[]> {
  return executor.run<FailureGroup>(groupStatement, [...conditions(filter), filter.limit ?? 100])
}

/** All of a definition, or all that failed alike. */
export async function findTroubledIds(
  executor: Executor,
  name: string,
  fingerprint: string | null,
): Promise<readonly string[]> {
  const rows = await executor.run<{ id: string }>(idsStatement, [name, fingerprint])
  return rows.map(({ id }) => id)
}

const conditions = ({ domain, type, fingerprint }: TroubleFilter) => [domain ?? null, type ?? null, fingerprint ?? null]

const FITS = `
      ($1::text is null or pg_catalog.split_part(trouble.type, '/', 1) = $1)
      and ($2::text is null or pg_catalog.split_part(trouble.type, '/', 2) = $2)
      and ($3::text is null or trouble.fingerprint = $3)`

const listStatement = {
  name: 'processes.list-trouble',
  text: `
    select
      trouble.id, detail.key, pg_catalog.split_part(trouble.type, '/', 1) as domain, pg_catalog.split_part(trouble.type, '/', 2) as type,
      trouble.since, trouble.step, trouble.error_kind as kind, trouble.error_code as code, trouble.error_message as message,
      trouble.error_stack as stack, trouble.fingerprint, trouble.batch_id as "batchId",
      case when detail.projection is null then detail.state else detail.projection end as state,
      case when detail.projection is null then detail.state_notes else detail.projection_notes end as notes
    from holdfast.process_trouble as trouble
    join holdfast.process on process.id = trouble.id
    join holdfast.process_detail as detail on detail.id = trouble.id
    where ${FITS}
    order by trouble.since, trouble.id
    limit $4`,
}

const countStatement = {
  name: 'processes.count-trouble',
  text: `select pg_catalog.count(*)::int as count from holdfast.process_trouble as trouble where ${FITS}`,
}

const groupStatement = {
  name: 'processes.group-trouble',
  text: `
    select
      fingerprint, pg_catalog.split_part(type, '/', 1) as domain, pg_catalog.split_part(type, '/', 2) as type, error_code as code,
      pg_catalog.min(error_message) as example, pg_catalog.count(*)::int as count, pg_catalog.min(since) as oldest, pg_catalog.max(since) as newest
    from holdfast.process_trouble as trouble
    where ${FITS}
    group by fingerprint, trouble.type, error_code
    order by pg_catalog.count(*) desc, fingerprint
    limit $4`,
}

const idsStatement = {
  name: 'processes.find-troubled-ids',
  text: `
    select id from holdfast.process_trouble
    where type = $1 and ($2::text is null or fingerprint = $2)
    order by since, id`,
}
