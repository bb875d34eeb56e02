import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import { type Database, notFound, type ResultSource, type Settled, type Why, workOf } from '../kernel/model/index.js'
import type { DispatchStatus } from './states.js'

interface Found {
  readonly itemType: string
  readonly key: string
  readonly status: DispatchStatus
  readonly lastError: string | null
  /** Of an execution on our own engine. */
  readonly result: unknown
  readonly notes: Notes | null
  readonly needsPerson: boolean | null
  readonly code: string | null
  readonly message: string | null
}

/** What a waiter names: an item of a type. */
export const resultKey = (itemType: string, key: string): string => `${itemType}\n${key}`

function split(key: string): readonly [itemType: string, key: string] {
  const at = key.indexOf('\n')
  return [key.slice(0, at), key.slice(at + 1)]
}

/** The ends of items: what their execution returned, an error that says why there is no result, or a need for a person. */
export function itemResults(
  db: Database,
  codec: Codec,
  why: (itemType: string, key: string) => Promise<Why>,
): ResultSource<Found> {
  return {
    model: 'dispatch',
    async find(keys) {
      const asked = keys.map(split)
      const rows = await db.run<Found & object>(findStatement, [
        asked.map(([itemType]) => itemType),
        asked.map(([, key]) => key),
      ])
      return new Map(rows.map((row) => [resultKey(row.itemType, row.key), row]))
    },
    settle({ itemType, key, status, lastError, result, notes, needsPerson, code, message }): Settled {
      const work = workOf('dispatch', itemType, key)
      if (status === 'COMPLETED') return { value: result === null ? null : codec.decode({ json: result, notes }) }
      if (status === 'FAILED') {
        const details = { ...work, status, ...errorOf(lastError) }
        return { error: new HoldfastError('HF_NOT_COMPLETED', details) }
      }
      if (status !== 'DEAD_LETTER' && !needsPerson) return undefined
      const failed = status === 'DEAD_LETTER' ? errorOf(lastError) : { code: code ?? '', message: message ?? '' }
      return { error: new HoldfastError('HF_NEEDS_ATTENTION', { ...work, status, step: '', ...failed }) }
    },
    unknown: (key) => notFound('dispatch', ...split(key)),
    async why({ itemType, key, status }) {
      return { work: workOf('dispatch', itemType, key), status, why: (await why(itemType, key)).text }
    },
  }
}

/** The last error of an item is kept as `CODE: message`. */
function errorOf(lastError: string | null): { readonly code: string; readonly message: string } {
  const text = lastError ?? ''
  const colon = text.indexOf(': ')
  return colon < 0 ? { code: '', message: text } : { code: text.slice(0, colon), message: text.slice(colon + 2) }
}

const findStatement = {
  name: 'dispatch.find-ends',
  text: `
    select
      item.item_type as "itemType", item.item_id as key, item.status, item.last_error as "lastError",
      execution.result, execution.notes, execution.needs_person as "needsPerson", execution.code, execution.message
    from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) as asked (item_type, item_id)
    join holdfast.dispatch_item as item
      on item.item_type = asked.item_type collate "C" and item.item_id = asked.item_id collate "C"
    left join holdfast.dispatch_cycle as cycle on cycle.item_type = item.item_type
    left join lateral (
      select detail.result, detail.result_notes as notes, process.status = 'WAITING_FOR_TSQ' as needs_person,
        detail.error_code as code, detail.error_message as message
      from holdfast.process_detail as detail
      join holdfast.process on process.id = detail.id
      where detail.key = item.execution_id and detail.type = any (cycle.exec_types) and detail.dispatch_item = item.item_id
      union all
      select workflow.output, workflow.output_notes, workflow.status = 'DLQ',
        workflow.failure ->> 'code'::text, workflow.failure ->> 'message'::text
      from holdfast.workflow
      where workflow.key = item.execution_id and workflow.name = any (cycle.exec_types)
        and workflow.dispatch_item = item.item_id
    ) as execution on item.status in ('DISPATCHED', 'COMPLETED')`,
}
