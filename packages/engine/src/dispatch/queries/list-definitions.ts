import type { Executor } from '../../kernel/database/executor.js'
import { namesOf } from '../reference.js'
import type { TargetKind } from '../settings-record.js'

/** A type of items that the installation knows. */
export interface KnownDispatch {
  readonly domain: string
  readonly type: string
  readonly target: TargetKind
  /** Whether a live worker runs its cycles. */
  readonly live: boolean
}

/** A cycle that was due for so long without a worker that ran it has none: a live worker looks every second. Milliseconds. */
export const MISSING_AFTER = 15_000

export async function listDefinitions(executor: Executor): Promise<readonly KnownDispatch[]> {
  const rows = await executor.run<{ itemType: string; target: TargetKind; live: boolean }>(listStatement, [
    MISSING_AFTER,
  ])
  return rows.map(({ itemType, target, live }) => ({ ...namesOf(itemType), target, live }))
}

const listStatement = {
  name: 'dispatch.list-definitions',
  text: `
    select config.item_type as "itemType", pg_catalog.lower(config.engine) as target,
      coalesce(cycle.due_at > holdfast.now() - $1::float8 * interval '1 ms', false) as live
    from holdfast.dispatch_config as config
    left join holdfast.dispatch_cycle as cycle using (item_type)
    order by config.item_type`,
}
