import type { Executor } from '../kernel/database/executor.js'
import type { Claimed, LeaseRef, WorkSource } from '../kernel/work/source.js'

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
    async extend(leases, leaseMs) {
      const [row] = await db.run<{ extended: string[]; lost: string[] }>(extendStatement, [...columns(leases), leaseMs])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, columns(leases))
    },
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [types()])
      return row?.seconds ?? null
    },
  }
}

const columns = (leases: readonly LeaseRef[]) => [leases.map(({ id }) => id), leases.map(({ epoch }) => epoch)]

const claimStatement = {
  name: 'dispatch.claim-cycles',
  text: 'select * from holdfast.claim_dispatch_cycles($1, $2, $3, $4, $5, $6)',
}

const extendStatement = {
  name: 'dispatch.extend-cycles',
  text: `
    with asked as (
      select * from unnest($1::text[], $2::int[]) as asked (item_type, epoch)
    ),
    free as (
      select item_type
      from holdfast.dispatch_cycle
      where item_type = any ($1::text[])
      order by item_type
      for no key update skip locked
    ),
    moved as (
      update holdfast.dispatch_cycle
      set due_at = holdfast.now() + $3 * interval '1 ms'
      from asked
      where dispatch_cycle.item_type = asked.item_type
        and dispatch_cycle.lease_epoch = asked.epoch
        and dispatch_cycle.leased_at is not null
        and dispatch_cycle.item_type in (select item_type from free)
      returning dispatch_cycle.item_type
    )
    select
      (select coalesce(json_agg(item_type), '[]') from moved) as extended,
      (
        select coalesce(json_agg(asked.item_type), '[]')
        from asked
        left join holdfast.dispatch_cycle as cycle on cycle.item_type = asked.item_type
        where cycle.item_type is null or cycle.lease_epoch <> asked.epoch or cycle.leased_at is null
      ) as lost`,
}

const releaseStatement = {
  name: 'dispatch.release-cycles',
  text: `
    with free as (
      select item_type
      from holdfast.dispatch_cycle
      where item_type = any ($1::text[])
      order by item_type
      for no key update skip locked
    )
    update holdfast.dispatch_cycle
    set due_at = holdfast.now(), leased_by = null, leased_at = null
    from unnest($1::text[], $2::int[]) as asked (item_type, epoch)
    where dispatch_cycle.item_type = asked.item_type
      and dispatch_cycle.lease_epoch = asked.epoch
      and dispatch_cycle.leased_at is not null
      and dispatch_cycle.item_type in (select item_type from free)`,
}

const oldestStatement = {
  name: 'dispatch.oldest-due',
  text: `
    select extract(epoch from holdfast.now() - min(oldest.due_at))::float8 as seconds
    from unnest($1::text[]) as type,
    lateral (
      select due_at
      from holdfast.dispatch_item
      where item_type = type.type and due_at <= holdfast.now()
      order by due_at
      limit 1
    ) oldest`,
}
