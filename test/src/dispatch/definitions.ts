import { type DispatchDefinition, defineDispatch, defineProcess, type ExecutionTarget, processTarget } from 'holdfast'
import type { DispatchSettings } from 'holdfast/types'
import type pg from 'pg'
import { z } from 'zod'

const Context = z.object({ n: z.number() })

export type Ran = (n: number) => void | Promise<void>

/** The process that executes items: one step, which says that it ran. */
function processOf(domain: string, ran: Ran) {
  return defineProcess(domain, 'Pay', {
    state: Context,
    async execute(ctx, state) {
      await ctx.step('pay', () => ran(state.n))
    },
  })
}

export function onProcesses(domain: string, config: DispatchSettings, ran: Ran = () => undefined) {
  const Pay = processOf(domain, ran)
  return { Pay, Settlement: defineDispatch(domain, 'Items', { target: processTarget(Pay), settings: config }) }
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
      return items.map(({ executionId }) => (asked.get(executionId) === 1 ? 'started' : 'alreadyStarted'))
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
  return defineDispatch(itemType, 'Items', { context: Context, target: remoteEngine(pool), settings: config })
}
