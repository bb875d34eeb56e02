import type { Executor } from '../../kernel/database/executor.js'

/** How an execution ended, in the words of the table. */
export interface ReportedEnd {
  readonly execution: string
  readonly found: string
  readonly code?: string
  readonly message?: string
}

/**
 * What became of a report: `done`; `ended` where the item had ended already or has another execution by now; `unknown` where
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
