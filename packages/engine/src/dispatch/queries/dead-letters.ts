import type { Executor } from '../../kernel/database/executor.js'

/** An item that failed too often. */
export interface DeadLetter {
  readonly itemType: string
  readonly key: string
  readonly since: Date
  readonly startAt: Date
  readonly retryCount: number
  readonly executionId: string | null
  readonly error: { readonly code: string; readonly message: string }
  readonly fingerprint: string
}

/** Dead letters that failed alike. */
export interface DeadLetterGroup {
  readonly itemType: string
  readonly fingerprint: string
  readonly code: string
  readonly example: string
  readonly count: number
  readonly oldest: Date
  readonly newest: Date
}

export interface DeadLetterFilter {
  readonly itemType?: string | undefined
  readonly fingerprint?: string | undefined
  readonly limit?: number | undefined
}

type Row = Omit<DeadLetter, 'error'> & { readonly code: string; readonly message: string }

export async function listDeadLetters(executor: Executor, filter: DeadLetterFilter): Promise<DeadLetter[]> {
  const rows = await executor.run<Row>(listStatement, [...conditions(filter), filter.limit ?? 100])
  return rows.map(({ code, message, ...row }) => ({ ...row, error: { code, message } }))
}

export async function countDeadLetters(executor: Executor, filter: DeadLetterFilter): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, conditions(filter))
  return row?.count ?? 0
}

export async function groupDeadLetters(executor: Executor, filter: DeadLetterFilter): Promise<DeadLetterGroup[]> {
  return executor.run<DeadLetterGroup>(groupStatement, [...conditions(filter), filter.limit ?? 100])
}

const conditions = ({ itemType, fingerprint }: DeadLetterFilter) => [itemType ?? null, fingerprint ?? null]

const FITS = `
      ($1::text is null or letter.item_type = $1)
      and ($2::text is null or letter.fingerprint = $2)`

const listStatement = {
  name: 'dispatch.list-dead-letters',
  text: `
    select letter.item_type as "itemType", letter.item_id as key, letter.since, item.exec_time as "startAt",
      item.retry_count as "retryCount", item.execution_id as "executionId", letter.error_code as code,
      letter.error_message as message, letter.fingerprint
    from holdfast.dispatch_dead_letter as letter
    join holdfast.dispatch_item as item using (item_type, item_id)
    where ${FITS}
    order by letter.since, letter.item_id
    limit $3`,
}

const countStatement = {
  name: 'dispatch.count-dead-letters',
  text: `select pg_catalog.count(*)::int as count from holdfast.dispatch_dead_letter as letter where ${FITS}`,
}

const groupStatement = {
  name: 'dispatch.group-dead-letters',
  text: `
    select item_type as "itemType", fingerprint, error_code as code, pg_catalog.min(error_message) as example,
      pg_catalog.count(*)::int as count, pg_catalog.min(since) as oldest, pg_catalog.max(since) as newest
    from holdfast.dispatch_dead_letter as letter
    where ${FITS}
    group by item_type, fingerprint, error_code
    order by pg_catalog.count(*) desc, fingerprint
    limit $3`,
}
