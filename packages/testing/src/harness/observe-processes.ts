import type { TestBus } from './test-bus.js'
import { waitFor } from './wait-for.js'

/** What a test wants to see of a process, as it stands in the tables. */
export interface ObservedProcess {
  readonly status: string
  readonly model: string
  /** As readers see it. */
  readonly state: unknown
  readonly result: unknown
  readonly error_code: string | null
  readonly error_message: string | null
  readonly waiting_for: string | null
  readonly due_at: Date | null
}

/** Looks at processes past the API, and does to them what operators do. */
export function observeProcesses({ sql }: Pick<TestBus, 'sql'>) {
  const look = async (id: string): Promise<ObservedProcess | undefined> =>
    (await sql<ObservedProcess>(lookText, [id]))[0]
  return {
    look,
    /** The process once it has that status. */
    until: (id: string, status: string): Promise<ObservedProcess> =>
      waitFor(`${id} is ${status}`, async () => {
        const found = await look(id)
        return found?.status === status ? found : undefined
      }),
    /** Its records in order: `COMMAND charge#2 COMPLETED`. */
    history: async (id: string): Promise<string[]> =>
      (await sql<{ line: string }>(historyText, [id])).map(({ line }) => line),
    /** Does to the tables what an operator's retry does. */
    async retry(id: string): Promise<void> {
      await sql('delete from holdfast.process_trouble where id = $1', [id])
      await sql(retryText, [id])
    },
    async cancel(id: string, mode: 'PLAIN' | 'COMPENSATE'): Promise<void> {
      await sql(`select holdfast.cancel_process($1, $2, 'ann', 'a test')`, [id, mode])
    },
  }
}

const lookText = `
  select process.status, process.due_at, detail.model, coalesce(detail.projection, detail.state) as state, detail.result,
    detail.error_code, detail.error_message, detail.waiting_for
  from holdfast.process
  join holdfast.process_detail as detail using (id)
  where id = $1`

const historyText = `
  select concat_ws(' ', kind, name || case when occurrence > 1 then '#' || occurrence else '' end, status) as line
  from holdfast.process_history
  where process_id = $1
  order by generation, seq`

const retryText = `
  with recorded as (
    insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status)
    select $1, 1, max(seq) + 1, 0, holdfast.now(), 'RETRY', 'RETRY', 1, 'COMPLETED'
    from holdfast.process_history
    where process_id = $1
  )
  update holdfast.process
  set status = case
        when exists (select from holdfast.process_history where process_id = $1 and kind = 'UNWIND') then 'COMPENSATING'
        else 'PENDING'
      end,
      due_at = holdfast.now(),
      lease_epoch = lease_epoch + 1
  where id = $1`
