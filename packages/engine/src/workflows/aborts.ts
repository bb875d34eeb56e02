import { HoldfastError } from '../kernel/errors.js'
import { createWatch, type Executor, type Logger, type Watch } from '../kernel/model/index.js'
import type { StepCall } from './step-call.js'

/** Aborts running calls of this program when their instances no longer need them. */
export type Aborts = Watch<StepCall>

/** A cancellation marks the steps that run and notifies all workers. */
export function createAborts(db: Executor, { everyMs, logger }: { everyMs: number; logger: Logger }): Aborts {
  return createWatch<StepCall>({
    everyMs,
    what: 'which calls must stop',
    logger,
    async ask(calls, isWatched) {
      const rows = await db.run<{ place: number }>(statement, [
        calls.map(({ item }) => item.workflowId),
        calls.map(({ item }) => item.number),
        calls.map(({ item }) => item.epoch),
      ])
      for (const { place } of rows) {
        const call = calls[place - 1]
        if (!call || !isWatched(call)) continue
        const what = `the step, with workflow instance ${call.item.workflowId},`
        call.abort(new HoldfastError('HF_STOPPED', { what }))
      }
    },
  })
}

const statement = {
  name: 'workflows.find-aborted',
  text: `
    select asked.place::int
    from rows from (pg_catalog.unnest($1::uuid[]), pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::int[])) with ordinality as asked (id, number, epoch, place)
    -- With offset 0 only the primary key serves this, not the index of all steps that were called off.
    cross join lateral (
      select abort
      from holdfast.workflow_step
      where workflow_id = asked.id and workflow_step.number = asked.number and lease_epoch = asked.epoch
      offset 0
    ) as step
    where step.abort`,
}
