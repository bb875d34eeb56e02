import type { Executor } from '../database/executor.js'
import type { LeaseRef, Losses } from './source.js'

interface Options {
  /** The name of the source of the items, as their claims pass it to `weigh_lost_claims`. */
  readonly source: string
  readonly idOf?: (id: string) => string
  readonly expire: (leases: readonly LeaseRef[]) => Promise<void>
}

/**
 * The record of one source's lost claims, in `holdfast.lost_claim`.
 *
 * @example
 * lossesOf(db, { source: 'processes', expire: (leases) => expireProcesses(db, leases) })
 */
export function lossesOf(db: Executor, { source, idOf = (id) => id, expire }: Options): Losses {
  return {
    async begun({ id, epoch }, company) {
      await db.run(begunStatement, [source, idOf(id), epoch, company])
    },
    async forget({ id, epoch }) {
      await db.run(forgetStatement, [source, idOf(id), epoch])
    },
    async interrupted(leases) {
      const ids = leases.map(({ id }) => idOf(id))
      await db.run(interruptedStatement, [source, ids, leases.map(({ epoch }) => epoch)])
    },
    expire,
  }
}

const begunStatement = { name: 'losses.begun', text: 'select holdfast.note_begun_claim($1, $2, $3, $4)' }
const forgetStatement = { name: 'losses.forget', text: 'select holdfast.forget_lost_claim($1, $2, $3)' }
const interruptedStatement = {
  name: 'losses.interrupted',
  text: 'select holdfast.note_interrupted_claims($1, $2::text[], $3::int[])',
}
