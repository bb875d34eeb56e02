// Reads instances for people: one, a page, or a count. `handle.ts`, `workflows.ts` and the results call it. A page must cost the same
// however many instances there are, so each set of filters is a statement of its own that an index serves.

import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Failure } from '../../kernel/failure/classify.js'
import { splitName } from '../../kernel/ids/name.js'
import type { Executor, Place } from '../../kernel/model/index.js'
import type { InstanceStatus } from '../states.js'

/** An instance as it is now. */
export interface WorkflowRecord {
  readonly id: string
  readonly key: string | null
  readonly domain: string
  readonly type: string
  readonly version: number
  readonly status: InstanceStatus
  /** Its domain, its definition, or a handler that it waits for, is paused: no worker claims it. */
  readonly paused: boolean
  readonly input: unknown
  /** The output of the last step; null until the instance is `COMPLETED`. */
  readonly output: unknown
  /** Why it failed, is being rolled back, or waits in the DLQ. */
  readonly error: {
    readonly step: string
    readonly kind: string
    readonly code: string
    readonly message: string
  } | null
  readonly createdAt: Date
  /** When it is to begin; null once it has begun. */
  readonly startAt: Date | null
  readonly updatedAt: Date
  readonly endedAt: Date | null
}

export interface InstanceFilter {
  readonly domain?: string | undefined
  readonly type?: string | undefined
  readonly version?: number | undefined
  readonly key?: string | undefined
  readonly status?: InstanceStatus | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

interface Row extends Omit<WorkflowRecord, 'domain' | 'type' | 'error'> {
  readonly name: string
  readonly inputNotes: Notes | null
  readonly outputNotes: Notes | null
  readonly failedStep: string | null
  readonly failure: Failure | null
}

/** One instance: by its id, or by the workflow (`domain/type`) and its key. */
export async function findInstance(
  executor: Executor,
  codec: Codec,
  which: { readonly id: string } | { readonly workflow: string; readonly key: string },
): Promise<WorkflowRecord | undefined> {
  const [row] =
    'id' in which
      ? await executor.run<Row & object>(byIdStatement, [which.id])
      : await executor.run<Row & object>(byKeyStatement, [which.workflow, which.key])
  return row && toRecord(row, codec)
}

/** Newest first, after the place where the page before ended. */
export async function listInstances(
  executor: Executor,
  codec: Codec,
  filter: InstanceFilter,
  { limit, after }: { readonly limit: number; readonly after: Place | undefined },
): Promise<WorkflowRecord[]> {
  const { conditions, values } = conditionsOf(filter, 2)
  const place = after ? [after.createdAt, after.id] : []
  const rows = await executor.run<Row & object>(listStatement(filter, conditions, after !== undefined), [
    limit,
    ...values,
    ...place,
  ])
  return rows.map((row) => toRecord(row, codec))
}

export async function countInstances(executor: Executor, filter: InstanceFilter): Promise<number> {
  const { conditions, values } = conditionsOf(filter, 1)
  const [row] = await executor.run<{ count: number }>(countStatement(filter, conditions), values)
  return row?.count ?? 0
}

function toRecord(row: Row, codec: Codec): WorkflowRecord {
  const { name, inputNotes, outputNotes, failedStep: step, failure, ...record } = row
  return {
    ...record,
    ...splitName(name),
    input: decodeOrRaw(codec, record.input, inputNotes),
    output: decodeOrRaw(codec, record.output, outputNotes),
    error:
      step === null || failure === null
        ? null
        : { step, kind: failure.kind, code: failure.code, message: failure.message },
  }
}

const columns = `
  id, key, name, version, status, input, input_notes as "inputNotes", output, output_notes as "outputNotes",
  failed_step as "failedStep", failure, created_at as "createdAt", updated_at as "updatedAt", ended_at as "endedAt",
  case when status = 'PENDING' then (
    select scheduled_at from holdfast.workflow_step where workflow_id = workflow.id and number = -1
  ) end as "startAt",
  ended_at is null and exists (select from holdfast.pause) and (
    holdfast.is_paused(array['definition:' || name, 'domain:' || pg_catalog.split_part(name, '/', 1)])
    or exists (
      select from holdfast.workflow_step as step
      where step.workflow_id = workflow.id and step.handler is not null and holdfast.is_paused(array['handler:' || step.handler])
    )
  ) as paused`

const byIdStatement = {
  name: 'workflows.find-by-id',
  text: `select ${columns} from holdfast.workflow where id = $1`,
}
const byKeyStatement = {
  name: 'workflows.find-by-key',
  text: `select ${columns} from holdfast.workflow where name = $1 and key = $2`,
}

interface Conditions {
  /** Of the names of workflows, of which there are few. */
  readonly ofNames: readonly string[]
  readonly ofInstances: readonly string[]
}

function conditionsOf(filter: InstanceFilter, first: number) {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  const ofNames: string[] = []
  const ofInstances: string[] = []
  given.forEach(([name], place) => {
    const value = `$${place + first}`
    const ofName = nameConditions[name]?.(value)
    if (ofName) ofNames.push(ofName)
    else ofInstances.push(instanceConditions[name]?.(value) ?? `${name} = ${value}`)
  })
  return { conditions: { ofNames, ofInstances }, values: given.map(([, value]) => value) }
}

const nameConditions: Readonly<Record<string, (value: string) => string>> = {
  domain: (value) => `pg_catalog.split_part(name, '/', 1) = ${value}`,
  type: (value) => `pg_catalog.split_part(name, '/', 2) = ${value}`,
}
const instanceConditions: Readonly<Record<string, (value: string) => string>> = {
  since: (value) => `created_at >= ${value}`,
  until: (value) => `created_at < ${value}`,
}

const namesOf = ({ ofNames }: Conditions) =>
  `(select distinct name from holdfast.workflow_definition ${ofNames.length === 0 ? '' : `where ${ofNames.join(' and ')}`}) as known`

const statementName = (kind: string, filter: InstanceFilter) =>
  `workflows.${kind} ${Object.entries(filter)
    .flatMap(([name, value]) => (value === undefined ? [] : name))
    .join(' ')}`

/**
 * A statement for each set of filters: with one for all of them PostgreSQL could use no index. Each workflow's newest are read from the
 * index on its name and the time of creation, so a page costs the same however old the table is.
 */
function listStatement(filter: InstanceFilter, conditions: Conditions, hasCursor: boolean) {
  const last = Object.values(filter).filter((value) => value !== undefined).length + 1
  // A cursor has milliseconds, the column microseconds: where the row of the cursor is still there, its own time counts.
  const place = `coalesce((select created_at from holdfast.workflow where id = $${last + 2}::uuid), $${last + 1}::timestamptz + interval '1 ms')`
  const after = hasCursor ? [`(created_at, id) < (${place}, $${last + 2}::uuid)`] : []
  return {
    name: `${statementName('list', filter)}${hasCursor ? ' after' : ''}`,
    text: `
      select found.*
      from ${namesOf(conditions)}
      cross join lateral (
        select ${columns}
        from holdfast.workflow
        where ${['workflow.name = known.name', ...conditions.ofInstances, ...after].join(' and ')}
        order by created_at desc, id desc
        limit $1
      ) as found
      order by found."createdAt" desc, found.id desc
      limit $1`,
  }
}

function countStatement(filter: InstanceFilter, conditions: Conditions) {
  return {
    name: statementName('count', filter),
    text: `
      select pg_catalog.count(*)::int
      from ${namesOf(conditions)}
      join holdfast.workflow on ${['workflow.name = known.name', ...conditions.ofInstances].join(' and ')}`,
  }
}
