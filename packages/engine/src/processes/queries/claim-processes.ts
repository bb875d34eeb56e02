import type { Notes } from '../../kernel/codec/notes.js'
import {
  type Claimed,
  type ClaimRequest,
  type ClaimResult,
  claimParams,
  type Executor,
} from '../../kernel/model/index.js'
import {
  type HistoryRecord,
  type HistoryRow,
  type RecordedResponse,
  type ResponseRow,
  toHistoryRecord,
  toResponse,
} from '../history.js'
import type { ProcessStatus } from '../states.js'

/** A claimed process with everything that an execution needs of it. */
export interface ClaimedProcess extends Claimed {
  readonly version: number
  /** Its status before the claim. */
  readonly status: ProcessStatus
  readonly restedEpoch: number
  readonly generation: number
  readonly cancel: 'PLAIN' | 'COMPENSATE' | null
  /** Whether it holds a slot of its definition's limit. */
  readonly limited: boolean
  /** Milliseconds of the database's clock at the claim. */
  readonly now: number
  readonly deadline: number | null
  readonly mismatchSince: number | null
  readonly startAt: number
  /**
   * Until when it has to begin, by the local monotonic clock; later it is released. Only of what was dispatched and has not
   * begun: an operator who uses the kill switch can wait for that time, and nothing more begins after it.
   */
  readonly beginBy?: number
  readonly createdAt: number
  readonly key: string | null
  readonly state: unknown
  readonly stateNotes: Notes | null
  readonly stateResponses: number
  readonly stateUnmet: readonly number[] | null
  /** Names of responses that events of earlier generations have asked for. */
  readonly stateEvents: readonly string[] | null
  /** False until the first execution, where the process was started through SQL. */
  readonly stateChecked: boolean
  /** The beginning of the record: a claim loads a bounded amount, and a replay reads on. */
  readonly history: readonly HistoryRecord[]
  /** The number of the last record; more than the last of `history` where the rest is to be read. */
  readonly historyLength: number | null
  /** How many responses there ever were; more than the number of the last of `responses` where the rest is to be read. */
  readonly responseCount: number
  readonly responses: readonly RecordedResponse[]
}

/** From before the claim is sent. Half a second less than the kill switch waits (`count_dispatched_beginning`). */
const BEGIN_WITHIN = 1_500

interface ClaimRow {
  items: (Omit<ClaimedProcess, 'history' | 'responses' | 'beginBy'> & {
    unbegun: boolean | null
    history: HistoryRow[] | null
    responses: ResponseRow[] | null
  })[]
  marks: { type: string; mark: number }[]
  next_due_ms: number | null
}

/** One definition at one version; a lane of the claim. */
export interface ProcessLane {
  readonly type: string
  readonly version: number
  readonly limit: number | null
}

export async function claimProcesses(
  executor: Executor,
  laneOf: (name: string) => ProcessLane,
  request: ClaimRequest,
): Promise<ClaimResult<ClaimedProcess>> {
  const known = request.lanes.map((lane) => laneOf(lane.type))
  const sentAt = performance.now()
  const [row] = await executor.run<ClaimRow>(statement, [
    known.map(({ type }) => type),
    known.map(({ version }) => version),
    known.map((lane) => lane.limit),
    request.lanes.map(({ from }) => from),
    ...claimParams(request),
  ])
  const items = (row?.items ?? []).map(({ history, responses, unbegun, ...item }) => ({
    ...item,
    ...(unbegun ? { beginBy: sentAt + BEGIN_WITHIN } : {}),
    history: (history ?? []).map(toHistoryRecord),
    responses: (responses ?? []).map(toResponse),
  }))
  return { items, marks: row?.marks ?? [], nextDueMs: row?.next_due_ms ?? null }
}

const statement = {
  name: 'processes.claim',
  text: 'select * from holdfast.claim_processes($1::text[], $2::int[], $3::int[], $4::float8[], $5, $6, $7, $8, $9)',
}
