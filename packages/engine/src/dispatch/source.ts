import { type Claimed, claimParams, type Executor, leasesOfTable, type WorkSource } from '../kernel/model/index.js'

/** The cycles of the item types that are registered here, as due items: any live worker claims them. */
export function cycleSource(db: Executor, types: () => readonly string[]): WorkSource<Claimed> {
  return {
    model: 'dispatch',
    types,
    async claim(request) {
      const wanted = request.lanes.map((lane) => lane.type)
      const [row] = await db.run<{ items: Claimed[]; next_due_ms: number | null }>(claimStatement, [
        wanted,
        ...claimParams(request),
      ])
      return { items: row?.items ?? [], marks: [], nextDueMs: row?.next_due_ms ?? null }
    },
    ...leasesOfTable(db, { model: 'dispatch', name: 'dispatch_cycles', key: 'text', lanes: types }),
  }
}

const claimStatement = {
  name: 'dispatch.claim-cycles',
  text: 'select * from holdfast.claim_dispatch_cycles($1, $2, $3, $4, $5, $6)',
}
