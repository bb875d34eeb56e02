import type { Executor } from '../../kernel/model/index.js'
import type { DispatchStatus } from '../states.js'

export type Depth = Readonly<Record<DispatchStatus, number>>

/** How many items of a type have which status: a sum over few rows, whatever the number of items. */
export async function countItems(executor: Executor, itemType: string): Promise<Depth> {
  const rows = await executor.run<{ status: DispatchStatus; count: number }>(countStatement, [itemType])
  const depth = { READY: 0, CLAIMED: 0, DISPATCHED: 0, COMPLETED: 0, FAILED: 0, DEAD_LETTER: 0 }
  for (const { status, count } of rows) depth[status] = count
  return depth
}

const countStatement = {
  name: 'dispatch.count-items',
  text: `
    select status, pg_catalog.sum(count)::float8 as count
    from holdfast.dispatch_tally
    where item_type = $1
    group by status`,
}
