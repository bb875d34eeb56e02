import { chunksOf, type Database, isList } from '../kernel/model/index.js'
import { anything, choice, declareOptions, required, text } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { FOUND, failureOfEnd } from './cycle/recover.js'
import { definedDispatch } from './define.js'
import { type ReportedEnd, type ReportResult, reportEnds } from './queries/report-ends.js'
import { type DispatchOf, itemTypeOf } from './reference.js'

/** How an execution elsewhere ended: `FAILED` is technical and started again, `CANCELLED` is for good. */
export interface ExecutionEnd {
  readonly executionId: string
  readonly status: 'COMPLETED' | 'FAILED' | 'CANCELLED'
  readonly error?: unknown
}

const ENDS = ['COMPLETED', 'FAILED', 'CANCELLED'] as const
/** The most items that one statement locks. */
const CHUNK = 1_000

/** Ends items of a remote target, as the target reports. A second report of the same end changes nothing. */
export async function reportEnd(
  db: Database,
  dispatch: DispatchOf,
  given: ExecutionEnd | readonly ExecutionEnd[],
): Promise<readonly ReportResult[]> {
  const where = 'dispatch.reportEnd'
  const itemType = itemTypeOf(where, dispatch)
  if ((definedDispatch(dispatch)?.engine ?? 'REMOTE') !== 'REMOTE') {
    throw invalidOption(where, 'dispatch', `${itemType} is executed by our own engine, which ends its items itself`)
  }
  const ends = (isList(given) ? given : [given]).map((end) => checkEnd(where, end))
  const results: ReportResult[] = []
  for (const chunk of chunksOf(ends, CHUNK)) results.push(...(await reportEnds(db, itemType, chunk)))
  return results
}

function checkEnd(where: string, end: ExecutionEnd): ReportedEnd {
  const { executionId: execution, status, error } = checkOptionsOfEnd(where, end)
  if (status === 'COMPLETED') return { execution, found: FOUND.COMPLETED }
  return { execution, found: FOUND[status], ...failureOfEnd(status, error) }
}

const checkOptionsOfEnd = declareOptions({
  executionId: required(text({ max: 512 })),
  status: required(choice(ENDS)),
  error: anything,
})
