import type { Executor } from '../../kernel/model/index.js'

/** How an execution ended, with the names of the table. */
export interface ReportedEnd {
  readonly execution: string
  readonly found: string
  readonly code?: string
  readonly message?: string
}

/**
 * The result of a report: `done`; `ended` if the item had ended already or has another execution by now; `unknown` if
 * no item of the type has the execution.
 */
export interface ReportResult {
  readonly executionId: string
  readonly outcome: 'done' | 'ended' | 'unknown'
}

export async function reportEnds(
  executor: Executor,
  itemType: string,
  ends: readonly ReportedEnd[],
): Promise<ReportResult[]> {
  return executor.run<ReportResult>(reportStatement, [itemType, JSON.stringify(ends)])
}

const reportStatement = {
  name: 'dispatch.report-ends',
  text: 'select * from holdfast.report_dispatch_ends($1, $2::text::jsonb)',
}
