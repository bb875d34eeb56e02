import type { Executor } from '../../kernel/model/index.js'

export interface ItemToCheck {
  readonly itemId: string
  readonly executionId: string
  readonly status: 'CLAIMED' | 'DISPATCHED'
}

/** What was found out about an execution, with the names of the table. */
export interface Finding {
  readonly id: string
  readonly execution: string
  readonly found: 'NOT_FOUND' | 'RUNNING' | 'UNKNOWN' | 'COMPLETED' | 'FAILED' | 'RETRY'
  readonly code?: string
  readonly message?: string
}

/** Claims without a record, and executions that have not been reported for a while: a bounded number. */
export async function findDueChecks(executor: Executor, itemType: string): Promise<ItemToCheck[]> {
  return executor.run<ItemToCheck>(findStatement, [itemType])
}

export async function applyChecks(
  executor: Executor,
  itemType: string,
  findings: readonly Finding[],
): Promise<{ readonly recovered: number }> {
  const [row] = await executor.run<{ answer: { recovered: number } }>(applyStatement, [
    itemType,
    JSON.stringify(findings),
  ])
  return row?.answer ?? { recovered: 0 }
}

const findStatement = { name: 'dispatch.find-checks', text: 'select * from holdfast.due_dispatch_checks($1)' }
const applyStatement = {
  name: 'dispatch.apply-checks',
  text: 'select holdfast.apply_dispatch_checks($1, $2::text::jsonb) as answer',
}
