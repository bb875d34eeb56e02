import type pg from 'pg'

/** Everything that is on record about a process, and what its code did. */
export interface ProcessBooks {
  readonly id: string
  readonly status: string
  readonly errorCode: string | null
  readonly state: unknown
  readonly result: unknown
  readonly waitingFor: string | null
  readonly responses: number
  readonly leased: boolean
  readonly records: readonly BookedRecord[]
  readonly calls: readonly { readonly call: string; readonly recorded: boolean; readonly unready: number }[]
  /** What its transactions have written. */
  readonly bookings: readonly string[]
}

interface BookedRecord {
  readonly seq: number
  readonly epoch: number
  readonly kind: string
  readonly call: string
  readonly status: string
}

const statement = `
  select process.id, process.status, detail.error_code as "errorCode", detail.projection as state, detail.result,
    detail.waiting_for as "waitingFor", process.responses, process.leased_at is not null as leased,
    coalesce((
      select json_agg(json_build_object('seq', seq, 'epoch', epoch, 'kind', kind, 'status', history.status,
        'call', case when kind = 'COMPENSATION' then 'undo ' else '' end || name
          || case when occurrence > 1 then '#' || occurrence else '' end) order by seq)
      from holdfast.process_history as history
      where process_id = process.id and history.generation = process.generation
    ), '[]') as records,
    coalesce((
      select json_agg(json_build_object('call', call, 'recorded', recorded, 'unready', unready) order by n)
      from effect where process_id = process.id
    ), '[]') as calls,
    array(select what from booking where process_id = process.id) as bookings
  from holdfast.process
  join holdfast.process_detail as detail using (id)
  where process.id = any ($1::uuid[])
  order by process.id`

export async function booksOf(pool: pg.Pool, ids: readonly string[]): Promise<ProcessBooks[]> {
  const { rows } = await pool.query<ProcessBooks>(statement, [ids])
  return rows
}

const attempted = new Set(['COMPLETED', 'FAILED', 'WAITING_RETRY'])

/**
 * What is wrong with a process's books: a call after its record, a call before what led to it was on record, more calls
 * than crashes explain, a second end of a call, a record of an older execution behind one of a newer.
 */
export function faultsIn({ records, calls }: ProcessBooks, crashes: number): string[] {
  const wrong: string[] = []
  for (const { call, recorded, unready } of calls) {
    if (recorded) wrong.push(`${call} was called after it was recorded`)
    if (unready > 0) wrong.push(`${call} was called before ${unready} of its causes were recorded`)
  }
  const names = new Set([...calls, ...records].map(({ call }) => call))
  for (const name of names) {
    const about = records.filter(({ call }) => call === name)
    const ends = about.filter(({ status }) => status === 'COMPLETED').length
    const noted = calls.filter(({ call }) => call === name).length
    const ended = about.filter(({ status }) => attempted.has(status)).length
    if (ends > 1) wrong.push(`${name} has ${ends} ends on record`)
    if (noted > ended + crashes) wrong.push(`${name} was called ${noted} times and recorded ${ended} times`)
  }
  for (const [place, { seq, epoch }] of records.entries()) {
    const before = records[place - 1]
    if (before && (before.seq >= seq || before.epoch > epoch)) wrong.push(`record ${seq} is not in order`)
  }
  return wrong
}

/** What has ended of a process, in an order that does not depend on who was faster. */
export function endsOf({ records }: ProcessBooks): string[] {
  return records
    .filter(({ status }) => status === 'COMPLETED' || status === 'FAILED')
    .map(({ kind, call, status }) => `${kind} ${call} ${status}`)
    .sort()
}
