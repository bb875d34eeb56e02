import type { Database } from '../database/database.js'
import type { Executor } from '../database/executor.js'
import { newId } from '../ids/id.js'
import { type Logger, silentLogger } from '../logger.js'
import { type Claimed, claimParams, type WorkSource } from '../work/source.js'
import { leasesOfTable } from '../work/table-leases.js'

/** A chore's code, by the name of its row in holdfast.chore. Must be harmless when repeated. */
export type Chores = Readonly<Record<string, (db: Database) => Promise<void>>>

/** The chores of the kernel itself. */
export const kernelChores: Chores = {
  // Four weeks ahead: a month of failures passes before a row has to go to the default partition.
  async audit_partitions(db) {
    await db.run({ name: 'chores.audit-partitions', text: 'select holdfast.ensure_audit_partitions(4)' })
  },
  async worker_definitions(db) {
    await db.run({ name: 'chores.worker-definitions', text: 'select holdfast.forget_workers()' })
  },
  async lost_claims(db) {
    await db.run({ name: 'chores.lost-claims', text: "select holdfast.clean_up_lost_claims('7 days', 10000)" })
  },
}

/** Housekeeping as due work: any worker claims it; a failed chore is tried again next time. */
export function choreSource(db: Executor, chores: Chores): WorkSource<Claimed> {
  const names = Object.keys(chores)
  return {
    model: 'chores',
    types: () => names,
    async claim(request) {
      const wanted = request.lanes.map((lane) => lane.type)
      const [row] = await db.run<{ items: Claimed[]; next_due_ms: number | null }>(claimStatement, [
        wanted,
        ...claimParams(request),
      ])
      return { items: row?.items ?? [], marks: [], nextDueMs: row?.next_due_ms ?? null }
    },
    ...leasesOfTable(db, { model: 'chores', name: 'chores', key: 'text', lanes: () => names }),
  }
}

/** Runs one chore and records how it went; its next time comes whether it failed or not. */
export function runChore(db: Database, chores: Chores, logger: Logger = silentLogger) {
  return async ({ id, epoch }: Claimed): Promise<void> => {
    let problem: string | null = null
    try {
      await chores[id]?.(db)
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error)
      logger.warn({ err: error, chore: id }, 'a chore failed; it is tried again when it is due next')
    }
    await db.run(finishStatement, [id, epoch, newId(), problem])
  }
}

const claimStatement = {
  name: 'chores.claim',
  text: 'select * from holdfast.chore_claim($1, $2, $3, $4, $5, $6)',
}

const finishStatement = {
  name: 'chores.finish',
  text: `
    update holdfast.chore
    set due_at = holdfast.now() + every,
        lease_epoch = lease_epoch + 1,
        leased_by = null,
        leased_at = null,
        last_write = $3,
        last_run_at = holdfast.now(),
        last_error = $4
    where name = $1 and lease_epoch = $2`,
}
