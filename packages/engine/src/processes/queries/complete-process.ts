import type { Encoded } from '../../kernel/codec/codec.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { By, Executor } from '../../kernel/model/index.js'
import { type RecordedResponse, type ResponseRow, toResponse } from '../history.js'
import type { ProcessStatus } from '../states.js'
import type { OperationAnswer } from './operate-processes.js'

/** A process that an operator completes: its state for readers, and the responses that are not applied yet. */
export interface Completable {
  readonly id: string
  readonly type: string
  readonly status: ProcessStatus
  /** The fence: it is completed only as long as these are as they were. */
  readonly epoch: number
  readonly responses: number
  readonly state: unknown
  readonly notes: Notes | null
  readonly missed: readonly RecordedResponse[]
}

export async function findCompletable(
  executor: Executor,
  name: string,
  reference: string,
): Promise<Completable | undefined> {
  const [row] = await executor.run<Omit<Completable, 'missed'> & { missed: ResponseRow[] | null }>(findStatement, [
    name,
    reference,
  ])
  return row && { ...row, missed: (row.missed ?? []).map(toResponse) }
}

export async function completeProcess(
  executor: Executor,
  { id, epoch, responses }: Completable,
  { actor, reason }: By,
  end: {
    /** Left as it is where not given. */
    readonly state: Encoded | undefined
    readonly result: Encoded | undefined
    /** For the audit: what the operator gave. */
    readonly overrides: Encoded | undefined
  },
): Promise<OperationAnswer['outcome']> {
  const parts = [
    ...(end.state ? [`"state":${end.state.json}`, `"notes":${JSON.stringify(end.state.notes)}`] : []),
    ...(end.result ? [`"result":${end.result.json}`, `"resultNotes":${JSON.stringify(end.result.notes)}`] : []),
  ]
  const said = [
    ...(end.overrides ? [`"state":${end.overrides.json}`] : []),
    ...(end.result ? [`"result":${end.result.json}`] : []),
  ]
  const [row] = await executor.run<{ outcome: OperationAnswer['outcome'] }>(completeStatement, [
    id,
    epoch,
    responses,
    `{${parts.join(',')}}`,
    actor,
    reason,
    `{${said.join(',')}}`,
  ])
  return row?.outcome ?? 'unknown'
}

const findStatement = {
  name: 'processes.find-completable',
  text: `
    select
      process.id, process.type, process.status, process.lease_epoch as epoch, process.responses,
      case when detail.projection is null then detail.state else detail.projection end as state,
      case when detail.projection is null then detail.state_notes else detail.projection_notes end as notes,
      (
        select pg_catalog.json_agg(pg_catalog.json_build_array(number, name, data, response.notes) order by number)
        from holdfast.process_response as response
        where process_id = process.id
          and number > case when detail.projection is null then detail.state_responses else detail.projection_responses end
      ) as missed
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    where process.id = holdfast.process_id_of($1, $2)`,
}

const completeStatement = {
  name: 'processes.complete',
  text: 'select holdfast.complete_process($1, $2, $3, $4::text::jsonb, $5, $6, $7::text::jsonb) as outcome',
}
