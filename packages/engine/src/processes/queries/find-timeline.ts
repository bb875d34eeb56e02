import type { Notes } from '../../kernel/codec/notes.js'
import { type Executor, type RecordedAuditEntry, readAudit } from '../../kernel/model/index.js'
import type { RecordDetail, RecordKind, RecordStatus } from '../history.js'

/** A row of history for readers. */
export interface TimelineRecord {
  readonly generation: number
  readonly seq: number
  readonly at: Date
  readonly kind: RecordKind
  readonly name: string
  readonly occurrence: number
  readonly status: RecordStatus
  readonly attempt: number | null
  readonly seen: number | null
  readonly nextAt: Date | null
  readonly result: unknown
  readonly notes: Notes | null
  readonly detail: RecordDetail | null
}

export interface TimelineResponse {
  readonly number: number
  readonly name: string
  readonly at: Date
  readonly data: unknown
  readonly notes: Notes | null
}

export interface TimelineSources {
  readonly records: readonly TimelineRecord[]
  readonly responses: readonly TimelineResponse[]
  readonly audit: readonly RecordedAuditEntry[]
}

/** The latest events and responses of a process, up to a limit. */
export async function findTimeline(executor: Executor, id: string, most: number): Promise<TimelineSources> {
  const records = await executor.run<TimelineRecord>(historyStatement, [id, most])
  const responses = await executor.run<TimelineResponse>(responsesStatement, [id, most])
  const audit = await readAudit(executor, { id })
  // A command may have the same id.
  return { records, responses, audit: audit.filter(({ model }) => model === 'processes') }
}

const historyStatement = {
  name: 'processes.timeline-history',
  text: `
    select * from (
      select
        generation, seq, at, kind, name, occurrence, status, attempt, seen, next_at as "nextAt", result, notes, detail
      from holdfast.process_history
      where process_id = $1
      order by generation desc, seq desc
      limit $2
    ) as latest
    order by generation, seq`,
}

const responsesStatement = {
  name: 'processes.timeline-responses',
  text: `
    select * from (
      select number, name, at, data, notes
      from holdfast.process_response
      where process_id = $1
      order by number desc
      limit $2
    ) as latest
    order by number`,
}
