import type { Executor } from '../database/executor.js'
import type { Claimed, LeaseRef, Losses, WorkSource } from './source.js'

interface LeasedTable {
  /** The model, for the names of statements. */
  readonly model: string
  /** What sql/functions/leases.sql calls it: `extend_<name>`, `release_<name>`, `expire_<name>`, `oldest_<name>`. */
  readonly name: string
  /** The type of its key. */
  readonly key: 'text' | 'uuid'
  /** The lanes whose oldest due item is asked for. */
  readonly lanes: () => readonly string[]
}

/**
 * Keeping and giving back the rows of a table of work, and the age of its oldest due row: the same statements for every table.
 * `expire` is for the losses of sources that have one.
 *
 * @example
 * leasesOfTable(db, { model: 'chores', name: 'chores', key: 'text', lanes: () => names })
 */
export function leasesOfTable(
  db: Executor,
  { model, name, key, lanes }: LeasedTable,
): Pick<WorkSource<Claimed>, 'extend' | 'release' | 'oldestDueSeconds'> & Pick<Losses, 'expire'> {
  const extendStatement = {
    name: `${model}.extend`,
    text: `select extended, lost from holdfast.extend_${name}($1::${key}[], $2::int[], $3::int)`,
  }
  const releaseStatement = {
    name: `${model}.release`,
    text: `select holdfast.release_${name}($1::${key}[], $2::int[])`,
  }
  const expireStatement = {
    name: `${model}.expire`,
    text: `select holdfast.expire_${name}($1::${key}[], $2::int[])`,
  }
  const oldestStatement = {
    name: `${model}.oldest-due`,
    text: `select seconds from holdfast.oldest_${name}($1::text[])`,
  }
  return {
    async extend(leases, leaseMs) {
      const [row] = await db.run<Extended>(extendStatement, [...columnsOf(leases), leaseMs])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, columnsOf(leases))
    },
    async expire(leases) {
      await db.run(expireStatement, columnsOf(leases))
    },
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [lanes()])
      return row?.seconds ?? null
    },
  }
}

/** What a heartbeat returns. */
export interface Extended {
  readonly extended: string[]
  readonly lost: string[]
}

/** Leases as two lists, as statements take them. */
export const columnsOf = (leases: readonly LeaseRef[]): [ids: string[], epochs: number[]] => [
  leases.map(({ id }) => id),
  leases.map(({ epoch }) => epoch),
]
