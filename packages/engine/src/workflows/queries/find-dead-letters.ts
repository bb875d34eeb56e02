import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { CallKind } from '../decide/state.js'

/** A step, or the compensation of one, that failed for good and waits for a person. */
export interface WorkflowDeadLetter {
  readonly id: string
  readonly instanceId: string
  readonly domain: string
  readonly type: string
  readonly version: number
  readonly step: string
  readonly stepType: string
  /** Whether the step failed, or its compensation. */
  readonly kind: CallKind
  readonly input: unknown
  readonly error: {
    readonly kind: string
    readonly code: string
    readonly message: string
    readonly fingerprint: string
    /** Where it was thrown, where that is known. */
    readonly stack?: string
  }
  readonly reason: string
  readonly createdAt: Date
}

export interface DeadLetterFilter {
  readonly domain?: string
  readonly type?: string
  readonly step?: string
  readonly instanceId?: string
  readonly fingerprint?: string
  readonly limit?: number
}

/** Dead letters that failed alike. */
export interface DeadLetterGroup {
  readonly fingerprint: string
  readonly code: string
  readonly shape: string
  readonly count: number
  readonly oldest: Date
  readonly newest: Date
}

interface Row extends Omit<WorkflowDeadLetter, 'input' | 'error'> {
  readonly input: unknown
  readonly notes: Notes | null
  readonly failure: Failure
}

const params = ({ domain, type, step, instanceId, fingerprint }: DeadLetterFilter): unknown[] =>
  [domain, type, step, instanceId, fingerprint].map((value) => value ?? null)

/** Oldest first. */
export async function findDeadLetters(
  executor: Executor,
  codec: Codec,
  filter: DeadLetterFilter & { readonly id?: string },
): Promise<WorkflowDeadLetter[]> {
  const rows = await executor.run<Row>(listStatement, [...params(filter), filter.id ?? null, filter.limit ?? 100])
  return rows.map(({ input, notes, failure, ...row }) => {
    const { kind, code, message, fingerprint, stack } = failure
    const error = { kind, code, message, fingerprint, ...(stack === undefined ? {} : { stack }) }
    return { ...row, input: decodeOrRaw(codec, input, notes), error }
  })
}

export async function groupDeadLetters(executor: Executor, filter: DeadLetterFilter): Promise<DeadLetterGroup[]> {
  return executor.run<DeadLetterGroup & object>(groupStatement, [...params(filter), filter.limit ?? 100])
}

export async function countDeadLetters(executor: Executor, filter: DeadLetterFilter): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, params(filter))
  return row?.count ?? 0
}

const conditions = `
      ($1::text is null or pg_catalog.split_part(workflow_name, '/', 1) = $1)
      and ($2::text is null or pg_catalog.split_part(workflow_name, '/', 2) = $2)
      and ($3::text is null or step = $3)
      and ($4::uuid is null or workflow_id = $4)
      and ($5::text is null or fingerprint = $5)`

const listStatement = {
  name: 'workflows.list-dead-letters',
  text: `
    select id, workflow_id as "instanceId", pg_catalog.split_part(workflow_name, '/', 1) as domain,
      pg_catalog.split_part(workflow_name, '/', 2) as type, workflow_version as version, step,
      step_type as "stepType", kind, input, input_notes as notes, failure, reason, created_at as "createdAt"
    from holdfast.workflow_dead_letter
    where ${conditions}
      and ($6::uuid is null or id = $6)
    order by created_at, id
    limit $7`,
}
const groupStatement = {
  name: 'workflows.group-dead-letters',
  text: `
    select fingerprint, pg_catalog.min(failure ->> 'code'::text) as code, pg_catalog.min(failure ->> 'shape'::text) as shape, pg_catalog.count(*)::int,
      pg_catalog.min(created_at) as oldest, pg_catalog.max(created_at) as newest
    from holdfast.workflow_dead_letter
    where ${conditions}
    group by fingerprint
    order by pg_catalog.count(*) desc, fingerprint
    limit $6`,
}
const countStatement = {
  name: 'workflows.count-dead-letters',
  text: `select pg_catalog.count(*)::int from holdfast.workflow_dead_letter where ${conditions}`,
}
