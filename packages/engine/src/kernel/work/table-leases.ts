import type { Executor } from '../database/executor.js'
import type { Claimed, LeaseRef, WorkSource } from './source.js'

/**
 * Extends and releases the leases of a table that has a handful of rows and needs no index: chores, dispatch cycles.
 * `key` is the column by which they are claimed.
 *
 * @example
 * leasesOfTable(db, { model: 'chores', table: 'chore', key: 'name' })
 */
export function leasesOfTable(
  db: Executor,
  { model, table, key }: { readonly model: string; readonly table: string; readonly key: string },
): Pick<WorkSource<Claimed>, 'extend' | 'release'> {
  const free = `
    select ${key}
    from holdfast.${table}
    where ${key} = any ($1::text[])
    order by ${key}
    for no key update skip locked`
  const mine = `
    ${table}.${key} = asked.key
      and ${table}.lease_epoch = asked.epoch
      and ${table}.leased_at is not null
      and ${table}.${key} in (select ${key} from free)`
  const extendStatement = {
    name: `${model}.extend`,
    text: `
      with asked as (
        select * from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::int[])) as asked (key, epoch)
      ),
      free as (${free}),
      moved as (
        update holdfast.${table}
        set due_at = holdfast.now() + $3::float8 * interval '1 ms'
        from asked
        where ${mine}
        returning ${table}.${key}
      )
      select
        (select coalesce(pg_catalog.json_agg(${key}), '[]') from moved) as extended,
        (
          select coalesce(pg_catalog.json_agg(asked.key), '[]')
          from asked
          left join holdfast.${table} as it on it.${key} = asked.key
          where it.${key} is null or it.lease_epoch <> asked.epoch or it.leased_at is null
        ) as lost`,
  }
  const releaseStatement = {
    name: `${model}.release`,
    text: `
      with free as (${free})
      update holdfast.${table}
      set due_at = holdfast.now(), leased_by = null, leased_at = null
      from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::int[])) as asked (key, epoch)
      where ${mine}`,
  }
  return {
    async extend(leases, leaseMs) {
      const [row] = await db.run<{ extended: string[]; lost: string[] }>(extendStatement, [...columns(leases), leaseMs])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, columns(leases))
    },
  }
}

const columns = (leases: readonly LeaseRef[]) => [leases.map(({ id }) => id), leases.map(({ epoch }) => epoch)]
