// Claims due steps and the starts of instances that begin later; `source.ts` calls it. The claim itself begins the call where the step
// is as its queue says (`fresh`), so that one statement stands before a call.

import type { Notes } from '../../kernel/codec/notes.js'
import type { CallOutcome, Claimed, ClaimRequest, ClaimResult, Executor, LostClaim } from '../../kernel/model/index.js'

/** A claimed step, or the claimed compensation of one. Its `type` is the handler, its `id` the instance and the number. */
export interface ClaimedStep extends Claimed {
  readonly workflowId: string
  readonly number: number
  readonly definitionId: number
  readonly compensates: boolean
  readonly fresh: boolean
  readonly attempts: number
  readonly input: unknown
  readonly inputNotes: Notes | null
  readonly output: unknown
  readonly outputNotes: Notes | null
  /** What is known of the calls of the step before this one, and of those of its compensation. */
  readonly outcome: CallOutcome | null
  readonly compensationOutcome: 'refused' | 'unknown' | null
  /** For how long it has been due. */
  readonly waitedMs: number
}

/** The lane of instances that begin later: any worker of workflows claims their start, which needs no handler. */
export const ROOT = '_root_'
/** The number of a start, in that lane or in one for input that is not checked yet. Numbers below it are decisions of people that came through SQL. */
export const START = -1

type Row = [
  workflowId: string,
  number: number,
  definitionId: number,
  handler: string,
  compensates: boolean,
  epoch: number,
  fresh: boolean,
  attempts: number,
  input: unknown,
  inputNotes: Notes | null,
  output: unknown,
  outputNotes: Notes | null,
  outcome: CallOutcome | null,
  compensationOutcome: 'refused' | 'unknown' | null,
  waitedMs: number,
  /** There where a call before was lost. */
  lost?: LostClaim,
]

export async function claimSteps(
  executor: Executor,
  { lanes, worker, limit, leaseMs: beatMs, spareLeased, ceilingMs }: ClaimRequest,
  leaseMs: number,
): Promise<ClaimResult<ClaimedStep>> {
  const handlers = lanes.map(({ type }) => type)
  const params = [handlers, worker, limit, leaseMs, beatMs, spareLeased, ceilingMs]
  const [row] = await executor.run<{ items: Row[]; next_due_ms: number | null }>(statement, params)
  return { items: (row?.items ?? []).map(toItem), marks: [], nextDueMs: row?.next_due_ms ?? null }
}

function toItem(row: Row): ClaimedStep {
  const [workflowId, number, definitionId, type, compensates, epoch, fresh, attempts, ...payloads] = row
  const [input, inputNotes, output, outputNotes, outcome, compensationOutcome, waitedMs, lost] = payloads
  const id = stepId(workflowId, number, fresh)
  const call = { workflowId, number, definitionId, compensates, fresh, attempts }
  const payload = { input, inputNotes, output, outputNotes, outcome, compensationOutcome, waitedMs }
  return { id, type, epoch, ...call, ...payload, ...(lost ? { lost } : {}) }
}

/** One text for the loop. It tells whether the claim made it a running call, which a release has to undo. */
const stepId = (workflowId: string, number: number, fresh: boolean): string =>
  `${workflowId}/${number}${fresh ? '' : '?'}`

export function parseStepId(id: string): { workflowId: string; number: number; fresh: boolean } {
  const at = id.indexOf('/')
  return { workflowId: id.slice(0, at), number: Number.parseInt(id.slice(at + 1), 10), fresh: !id.endsWith('?') }
}

const statement = {
  name: 'workflows.claim',
  text: 'select * from holdfast.claim_workflow_steps($1::text[], $2, $3, $4, $5, $6, $7)',
}
