import type { Executor } from '../../kernel/model/index.js'

/** Ends a cycle and says when the next one is due. Returns how many dead letters are new; null where the lease is lost. */
export async function finishCycle(
  executor: Executor,
  cycle: { readonly type: string; readonly epoch: number },
  next: { readonly intervalMs: number; readonly restMs: number; readonly error: string | null },
): Promise<number | null> {
  const [row] = await executor.run<{ dead: number | null }>(finishStatement, [
    cycle.type,
    cycle.epoch,
    next.intervalMs,
    next.restMs,
    next.error,
  ])
  return row?.dead ?? null
}

/** What became dead letters last, for reports. */
export async function findNewestDeadLetters(
  executor: Executor,
  itemType: string,
  most: number,
): Promise<
  readonly { readonly itemId: string; readonly code: string; readonly message: string; readonly attempt: number }[]
> {
  return executor.run(newestStatement, [itemType, most])
}

/** How many items a rate limit is to be asked for. */
export async function countReleasable(executor: Executor, itemType: string, most: number): Promise<number> {
  const [row] = await executor.run<{ count: number }>(countStatement, [itemType, most])
  return row?.count ?? 0
}

const finishStatement = {
  name: 'dispatch.finish-cycle',
  text: 'select holdfast.finish_dispatch_cycle($1, $2, $3, $4, $5) as dead',
}
const countStatement = {
  name: 'dispatch.count-releasable',
  text: 'select holdfast.count_releasable_items($1, $2) as count',
}
const newestStatement = {
  name: 'dispatch.newest-dead-letters',
  text: `
    select dead.item_id as "itemId", error_code as code, error_message as message, item.retry_count as attempt
    from holdfast.dispatch_dead_letter as dead
    join holdfast.dispatch_item as item on item.item_type = dead.item_type and item.item_id = dead.item_id
    where dead.item_type = $1
    order by dead.since desc, dead.item_id
    limit $2`,
}
