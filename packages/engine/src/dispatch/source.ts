import type { Executor } from '../kernel/database/executor.js'
import type { Claimed, WorkSource } from '../kernel/work/source.js'
import { leasesOfTable } from '../kernel/work/table-leases.js'

/** The cycles of the item types that are registered here, as due items (K-01): whichever worker is there claims them. */
export function cycleSource(db: Executor, types: () => readonly string[]): WorkSource<Claimed> {
  return {
    model: 'dispatch',
    types,
    async claim({ lanes, worker, limit, leaseMs, spareLeased, ceilingMs }) {
      const wanted = lanes.map((lane) => lane.type)
      const [row] = await db.run<{ items: Claimed[]; next_due_ms: number | null }>(claimStatement, [
        wanted,
        worker,
        limit,
        leaseMs,
        spareLeased,
        ceilingMs,
      ])
      return { items: row?.items ?? [], marks: [], nextDueMs: row?.next_due_ms ?? null }
    },
    ...leasesOfTable(db, { model: 'dispatch.cycles', table: 'dispatch_cycle', key: 'item_type' }),
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [types()])
      return row?.seconds ?? null
    },
  }
}

const claimStatement = {
  name: 'dispatch.claim-cycles',
  text: 'select * from holdfast.claim_dispatch_cycles($1, $2, $3, $4, $5, $6)',
}

const oldestStatement = {
  name: 'dispatch.oldest-due',
  text: `
    select extract(epoch from holdfast.now() - pg_catalog.min(oldest.due_at))::float8 as seconds
    from pg_catalog.unnest($1::text[]) as type,
    lateral (
      select due_at
      from holdfast.dispatch_item
      where item_type = type.type and due_at <= holdfast.now()
      order by due_at
      limit 1
    ) oldest`,
}
