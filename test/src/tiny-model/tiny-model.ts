import { readFile } from 'node:fs/promises'
import {
  type Batcher,
  type Claimed,
  createBatcher,
  type Database,
  type Executor,
  HoldfastError,
  leasesOfTable,
  type Metrics,
  newId,
  type WorkSource,
} from 'holdfast/internal'

/** Installs the tiny model's table and functions into the schema of an open database. */
export async function installTinyModel(db: Database): Promise<void> {
  const file = new URL('../../sql/tiny-model.sql', import.meta.url)
  const text = await readFile(file, 'utf8')
  await db.transaction(async (tx) => {
    await tx.query(db.sql(text))
  })
}

/** Inserts items that are due at once, or so many milliseconds from now; only inserts, so any executor will do (K-15). */
export async function enqueueTiny(executor: Executor, type: string, count: number, delayMs = 0): Promise<string[]> {
  const ids = Array.from({ length: count }, newId)
  await executor.run(enqueueStatement, [JSON.stringify({ type, ids, delayMs })])
  return ids
}

const enqueueStatement = {
  name: 'tiny.enqueue',
  text: `
    with request as (select $1::text::jsonb as it),
    inserted as (
      insert into holdfast.tiny (id, type, due_at)
      select id::uuid, it ->> 'type', holdfast.now() + (it ->> 'delayMs')::float8 * interval '1 ms'
      from request, jsonb_array_elements_text(it -> 'ids') as id
    )
    select holdfast.wake('tiny:' || (it ->> 'type')) from request`,
}

export function tinySource(db: Executor, types: readonly string[]): WorkSource<Claimed> {
  return {
    model: 'tiny',
    types: () => types,
    async claim({ lanes, worker, limit, leaseMs, spareLeased, ceilingMs }) {
      const [row] = await db.run<ClaimRow>(claimStatement, [
        lanes.map((lane) => lane.type),
        lanes.map((lane) => lane.from),
        worker,
        limit,
        leaseMs,
        spareLeased,
        ceilingMs,
      ])
      return { items: row?.items ?? [], marks: row?.marks ?? [], nextDueMs: row?.next_due_ms ?? null }
    },
    ...leasesOfTable(db, { model: 'tiny', name: 'tiny', key: 'uuid', lanes: () => types }),
  }
}

interface ClaimRow {
  items: Claimed[]
  marks: { type: string; mark: number }[]
  next_due_ms: number | null
}

const columns = (leases: readonly { id: string; epoch: number }[]) => [
  leases.map((lease) => lease.id),
  leases.map((lease) => lease.epoch),
]

const claimStatement = { name: 'tiny.claim', text: 'select * from holdfast.tiny_claim($1, $2, $3, $4, $5, $6, $7)' }

export interface TinyFinish {
  readonly id: string
  readonly epoch: number
  readonly token: string
}

/** The group commit of finishes: one statement for many, each with its own answer. */
export function tinyFinishes(db: Executor, options: { metrics?: Metrics } = {}): Batcher<TinyFinish, void> {
  return createBatcher<TinyFinish, void>({
    name: 'tiny.finish',
    key: (write) => write.id,
    ...options,
    flush: async (writes) => {
      const [row] = await db.run<{ answers: number[] }>(finishStatement, [
        ...columns(writes),
        writes.map((write) => write.token),
      ])
      return (row?.answers ?? []).map((answer, place) => {
        if (answer === 0) return { done: undefined }
        if (answer === 2) return 'held'
        const { id, epoch } = writes[place] ?? { id: '?', epoch: 0 }
        return { failed: new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) }) }
      })
    },
  })
}

const finishStatement = { name: 'tiny.finish', text: 'select holdfast.tiny_finish($1, $2, $3) as answers' }
