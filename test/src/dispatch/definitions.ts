import type { StandardSchemaV1 } from '@standard-schema/spec'
import {
  type DispatchDefinition,
  type DispatchSettings,
  defineDispatch,
  defineProcess,
  type ExecutionTarget,
  processTarget,
} from 'holdfast'
import type pg from 'pg'

/** A schema that takes everything: what is tested here is not the checking. */
const anything: StandardSchemaV1<{ readonly n: number }, { readonly n: number }> = {
  // What is scheduled here is always of this form.
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: value as { n: number } }) },
}

export type Ran = (n: number) => void | Promise<void>

/** The process that executes items: one step, which says that it ran. */
export function processOf(domain: string, ran: Ran) {
  return defineProcess(domain, 'Pay', {
    state: anything,
    async execute(ctx, state) {
      await ctx.step('pay', { run: () => ran(state.n) })
    },
  })
}

export function onProcesses(domain: string, config: DispatchSettings, ran: Ran = () => undefined) {
  const Pay = processOf(domain, ran)
  return { Pay, Settlement: defineDispatch(domain, { target: processTarget(Pay), config }) }
}

export const remoteTable = `
  create table remote_execution (
    execution_id text primary key,
    start_at timestamptz not null,
    asked int not null default 1
  )`

/** An engine elsewhere, which outlives every dispatcher: a table of its own. All its executions complete at once. */
function remoteEngine(pool: pg.Pool): ExecutionTarget<{ n: number }> {
  return {
    name: 'a table',
    async start(items) {
      const { rows } = await pool.query<{ execution_id: string; asked: number }>(
        `insert into remote_execution as there (execution_id, start_at)
         select * from unnest($1::text[], $2::timestamptz[])
         on conflict (execution_id) do update set asked = there.asked + 1
         returning execution_id, asked`,
        [items.map(({ executionId }) => executionId), items.map(({ startAt }) => startAt)],
      )
      const asked = new Map(rows.map((row) => [row.execution_id, row.asked]))
      return items.map(({ executionId }) => (asked.get(executionId) === 1 ? 'started' : 'already started'))
    },
    async describe(ids) {
      const { rows } = await pool.query<{ execution_id: string }>(
        'select execution_id from remote_execution where execution_id = any ($1)',
        [ids],
      )
      const there = new Set(rows.map((row) => row.execution_id))
      return ids.map((id) => ({ status: there.has(id) ? 'COMPLETED' : 'NOT_FOUND' }))
    },
  }
}

export function onRemote(
  itemType: string,
  config: DispatchSettings,
  pool: pg.Pool,
): DispatchDefinition<{ readonly n: number }> {
  return defineDispatch(itemType, { context: anything, target: remoteEngine(pool), config })
}
