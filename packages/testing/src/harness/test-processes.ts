import type { Holdfast, ProcessDefinition, Worker, WorkerOptions } from 'holdfast'
import type { ResponseSchemas } from 'holdfast/types'
import { waitFor } from './wait-for.js'

type Sql = <Row extends object = Record<string, unknown>>(text: string, params?: unknown[]) => Promise<Row[]>

/** What tests read of a process from the tables. */
export interface ProcessRow {
  /** `payments/Payment` */
  readonly type: string
  readonly model: string
  readonly status: string
  readonly leased_by: string | null
  readonly lease_epoch: number
  readonly due_at: Date | null
  readonly waiting_for: string | null
  readonly wait_timeout_at: Date | null
  readonly next_retry_at: Date | null
  /** As readers see it. */
  readonly state: unknown
  readonly result: unknown
  readonly error_code: string | null
  readonly error_message: string | null
}

/** What tests of processes see and do besides the API. */
export interface TestProcesses {
  /** Registers a process and starts a worker for its domain, which polls often. */
  runProcesses<Input, Responses extends ResponseSchemas, Result>(
    definition: ProcessDefinition<Input, Responses, Result>,
    options?: WorkerOptions,
  ): Promise<Worker>
  process(id: string): Promise<ProcessRow>
  /** The process once it is suspended with that status. */
  rests(id: string, status: string): Promise<ProcessRow>
  /** The records of all its generations in order: `STEP book#2 COMPLETED`. */
  history(id: string): Promise<string[]>
  /** Ends the lease, as if the worker that holds it had died: another one may claim it at once. */
  endLease(id: string): Promise<void>
  /** Ends the long sleep of a suspended process: it is replayed. */
  wakeUp(id: string): Promise<void>
  /** What an operator does; by its id alone. */
  retry(id: string): Promise<void>
  cancel(id: string, mode?: 'PLAIN' | 'COMPENSATE'): Promise<string>
}

export function testProcesses(hf: Holdfast, sql: Sql): TestProcesses {
  async function find(id: string): Promise<ProcessRow> {
    const [row] = await sql<ProcessRow>(findText, [id])
    if (!row) throw new Error(`there is no process ${id}`)
    return row
  }
  async function rests(id: string, status: string): Promise<ProcessRow> {
    let last: ProcessRow | undefined
    try {
      return await waitFor(`${id} rests ${status}`, async () => {
        last = await find(id)
        return last.status === status && last.leased_by === null ? last : undefined
      })
    } catch (error) {
      throw new Error(`it stands ${JSON.stringify(last)}`, { cause: error })
    }
  }
  return {
    runProcesses(definition, options) {
      hf.register(definition)
      return hf.run({ domains: [definition.domain], poll: '20ms', ...options })
    },
    process: find,
    rests,
    history: async (id) => (await sql<{ line: string }>(historyText, [id])).map(({ line }) => line),
    async endLease(id) {
      await sql('update holdfast.process set due_at = holdfast.now() where id = $1 and leased_by is not null', [id])
    },
    async wakeUp(id) {
      await waitFor(`${id} sleeps`, async () => (await sql(wakeText, [id])).length > 0)
      await sql('update holdfast.process set due_at = holdfast.now() where id = $1', [id])
    },
    async retry(id) {
      const [domain = '', type = ''] = (await find(id)).type.split('/')
      await hf.process({ domain, type }, id).retry({ actor: 'ann', reason: 'a test' })
    },
    async cancel(id, mode = 'PLAIN') {
      const [row] = await sql<{ answer: string }>(cancelText, [id, mode])
      return row?.answer ?? ''
    },
  }
}

const findText = `
  select process.type, model, process.status, leased_by, lease_epoch, due_at, waiting_for, wait_timeout_at, next_retry_at,
    coalesce(projection, state) as state, result, error_code, error_message
  from holdfast.process
  join holdfast.process_detail using (id)
  where id = $1`

const historyText = `
  select concat_ws(' ', kind, name || case when occurrence > 1 then '#' || occurrence else '' end, status) as line
  from holdfast.process_history
  where process_id = $1
  order by generation, seq`

const wakeText = `
  update holdfast.process_history
  set next_at = holdfast.now()
  from holdfast.process
  join holdfast.process_detail using (id)
  where id = $1
    and process.leased_by is null
    and process_id = id
    and process_history.generation = process.generation
    and kind = 'SLEEP'
    and next_at > holdfast.now()
    and waiting_for = name || case when occurrence > 1 then '#' || occurrence else '' end
  returning 1`

const cancelText = `select holdfast.cancel_process($1, $2, 'ann', 'test') as answer`
