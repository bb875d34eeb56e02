import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Executor } from '../../kernel/database/executor.js'

export interface TroubleFilter {
  readonly domain?: string
  readonly type?: string
  /** Failures of one group. */
  readonly fingerprint?: string
  /** 100 unless given. */
  readonly limit?: number
}

export interface TroubledCommand {
  readonly commandId: string
  readonly domain: string
  readonly type: string
  readonly since: Date
  readonly attempts: number
  readonly error: {
    readonly kind: string
    readonly code: string
    readonly message: string
    /** Where it was thrown, where that is known. */
    readonly stack?: string
  }
  readonly fingerprint: string
  readonly batchId: string | null
  readonly data: unknown
}

export interface FailureGroup {
  readonly fingerprint: string
  readonly domain: string
  readonly type: string
  readonly code: string
  /** The message of one of them. */
  readonly example: string
  readonly count: number
  readonly oldest: Date
  readonly newest: Date
}

type Row = Omit<TroubledCommand, 'error'> & {
  readonly error_kind: string
  readonly error_code: string
  readonly error_message: string
  readonly error_stack: string | null
  readonly notes: Record<string, string> | null
}

/** What is in troubleshooting, the longest first. */
export async function listTrouble(executor: Executor, codec: Codec, filter: TroubleFilter): Promise<TroubledCommand[]> {
  const rows = await executor.run<Row>(listStatement, [...conditions(filter), filter.limit ?? 100])
  return rows.map(
    ({ error_kind: kind, error_code: code, error_message: message, error_stack: stack, notes, data, ...row }) => ({
      ...row,
      error: { kind, code, message, ...(stack === null ? {} : { stack }) },
      data: decodeOrRaw(codec, data, notes),
    }),
  )
}

export async function countTrouble(executor: Executor, filter: TroubleFilter): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, conditions(filter))
  return row?.count ?? 0
}

export async function groupTrouble(executor: Executor, filter: TroubleFilter): Promise<FailureGroup[]> {
  return executor.run<FailureGroup>(groupStatement, [...conditions(filter), filter.limit ?? 100])
}

const conditions = ({ domain, type, fingerprint }: TroubleFilter) => [domain ?? null, type ?? null, fingerprint ?? null]

const FITS = `
      ($1::text is null or trouble.domain = $1)
      and ($2::text is null or trouble.type = $2)
      and ($3::text is null or trouble.fingerprint = $3)`

const listStatement = {
  name: 'commands.list-trouble',
  text: `
    select
      trouble.command_id as "commandId", trouble.domain, trouble.type, trouble.since, command.attempts,
      trouble.error_kind, trouble.error_code, trouble.error_message, trouble.error_stack, trouble.fingerprint,
      trouble.batch_id as "batchId", command.data, command.notes
    from holdfast.command_trouble as trouble
    join holdfast.command on command.command_id = trouble.command_id and command.domain = trouble.domain
    where ${FITS}
    order by trouble.since, trouble.command_id
    limit $4`,
}

const countStatement = {
  name: 'commands.count-trouble',
  text: `select pg_catalog.count(*)::int as count from holdfast.command_trouble as trouble where ${FITS}`,
}

const groupStatement = {
  name: 'commands.group-trouble',
  text: `
    select
      fingerprint, domain, type, error_code as code, pg_catalog.min(error_message) as example,
      pg_catalog.count(*)::int as count, pg_catalog.min(since) as oldest, pg_catalog.max(since) as newest
    from holdfast.command_trouble as trouble
    where ${FITS}
    group by fingerprint, domain, type, error_code
    order by pg_catalog.count(*) desc, fingerprint
    limit $4`,
}
