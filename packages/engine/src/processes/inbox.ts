import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { HoldfastError } from '../kernel/errors.js'
import { isId } from '../kernel/ids/id.js'
import type { Logger } from '../kernel/logger.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { Claimed, LeaseRef, WorkSource } from '../kernel/work/source.js'
import type { ProcessDefinition } from './define.js'
import { findIdByKey } from './queries/find-id-by-key.js'
import type { Respond } from './respond.js'

/** A response in the inbox: from a caller's transaction, another language, or an ended child. */
export interface InboxItem extends Claimed {
  readonly reference: string
  readonly name: string
  readonly responseId: string
  readonly data: unknown
  readonly notes: Notes | null
  readonly checked: boolean
  readonly ageMs: number
}

/** A response may overtake the start of its process, which is in a transaction that has not committed yet. */
const PATIENCE = 60_000
const LOOK_AGAIN = 1_000

export function inboxSource(db: Executor, definitions: () => readonly ProcessDefinition[]): WorkSource<InboxItem> {
  return {
    model: 'process-inbox',
    types: () => definitions().map(({ name }) => name),
    async claim({ lanes, worker, limit, leaseMs, spareLeased, ceilingMs }) {
      const [row] = await db.run<ClaimRow>(claimStatement, [
        lanes.map(({ type }) => type),
        lanes.map(({ from }) => from),
        worker,
        limit,
        leaseMs,
        spareLeased,
        ceilingMs,
      ])
      return { items: row?.items ?? [], marks: row?.marks ?? [], nextDueMs: row?.next_due_ms ?? null }
    },
    async extend(leases, leaseMs) {
      const rows = await db.run<{ id: string }>(extendStatement, [...columns(leases), leaseMs])
      const extended = rows.map(({ id }) => id)
      return { extended, lost: leases.map(({ id }) => id).filter((id) => !extended.includes(id)) }
    },
    async release(leases) {
      await db.run(releaseStatement, [...columns(leases), 0])
    },
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [definitions().map(({ name }) => name)])
      return row?.seconds ?? null
    },
  }
}

interface InboxParts {
  readonly find: (name: string) => ProcessDefinition | undefined
  readonly respond: Respond
  readonly codec: Codec
  readonly logger: Logger
}

/**
 * Hands one item over: checks what is not checked yet, records it under its response id, removes it. Killed between the
 * last two, it is recorded once all the same. What cannot be handed over is audited and removed: nobody waits behind it.
 */
export function handOver(db: Database, { find, respond, codec, logger }: InboxParts) {
  return async function run(item: InboxItem): Promise<void> {
    const definition = find(item.type)
    if (!definition) return
    let id = isId(item.reference) ? item.reference.toLowerCase() : undefined
    try {
      id ??= await findIdByKey(db, item.type, item.reference)
      const { json, notes } = await sealed(definition, item)
      const write = { id, type: item.type, name: item.name, responseId: item.responseId, json, notes }
      await respond.record(definition, write, definition)
      await db.run(doneStatement, [item.id, item.epoch])
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
      if (error.code === 'HF_UNKNOWN_PROCESS' && item.ageMs < PATIENCE) {
        await db.run(releaseStatement, [[item.id], [item.epoch], LOOK_AGAIN])
        return
      }
      if (error.status >= 500) throw error
      logger.warn({ err: error, process: item.reference, response: item.name }, 'a response was refused')
      await db.run(refuseStatement, [item.id, item.epoch, error.code, error.message, id ?? null])
    }
  }

  async function sealed(definition: ProcessDefinition, item: InboxItem) {
    if (item.checked) return { json: JSON.stringify(item.data), notes: item.notes }
    const known = definition.responses.get(item.name)
    if (!known) throw new HoldfastError('HF_UNKNOWN_RESPONSE', { process: definition.name, response: item.name })
    const data = await parseWith(known.data, item.data, `respond ${definition.name}: ${item.name}`)
    const { json, notes } = codec.encode(data, { at: item.name })
    return { json, notes }
  }
}

interface ClaimRow {
  items: InboxItem[]
  marks: { type: string; mark: number }[]
  next_due_ms: number | null
}

const columns = (leases: readonly LeaseRef[]) => [leases.map(({ id }) => id), leases.map(({ epoch }) => epoch)]

const claimStatement = {
  name: 'processes.claim-inbox',
  text: 'select * from holdfast.claim_inbox($1::text[], $2::float8[], $3, $4, $5, $6, $7)',
}
const extendStatement = {
  name: 'processes.extend-inbox',
  text: `
    update holdfast.process_inbox
    set due_at = holdfast.now() + $3 * interval '1 ms'
    from unnest($1::uuid[], $2::int[]) as asked (id, epoch)
    where process_inbox.id = asked.id and lease_epoch = asked.epoch and leased_at is not null
    returning process_inbox.id`,
}
const releaseStatement = {
  name: 'processes.release-inbox',
  text: `
    update holdfast.process_inbox
    set due_at = holdfast.now() + $3 * interval '1 ms', leased_by = null, leased_at = null
    from unnest($1::uuid[], $2::int[]) as asked (id, epoch)
    where process_inbox.id = asked.id and lease_epoch = asked.epoch`,
}
const doneStatement = {
  name: 'processes.inbox-done',
  text: 'delete from holdfast.process_inbox where id = $1 and lease_epoch = $2',
}
const refuseStatement = {
  name: 'processes.inbox-refuse',
  text: `
    with removed as (
      delete from holdfast.process_inbox where id = $1 and lease_epoch = $2 returning *
    )
    insert into holdfast.audit (at, model, event, subject_id, subject_name, detail)
    select holdfast.now(), 'processes', 'RESPONSE_REFUSED', process.id,
      case when process.id is null then removed.type || ' ' || removed.process_ref end,
      jsonb_build_object('response', removed.name, 'response_id', removed.response_id, 'data', removed.data,
        'code', $3::text, 'message', $4::text)
    from removed
    left join holdfast.process on process.id = $5::uuid`,
}
const oldestStatement = {
  name: 'processes.oldest-inbox',
  text: `
    select extract(epoch from holdfast.now() - min(due_at))::float8 as seconds
    from holdfast.process_inbox
    where type = any ($1::text[]) and due_at <= holdfast.now()`,
}
