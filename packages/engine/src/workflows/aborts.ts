import type { Executor } from '../kernel/database/executor.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { StepCall } from './step-call.js'

/** The calls that run in this program, told when their instances do not want them any more (W-11). */
export interface Aborts {
  join(call: StepCall): () => void
  /** Somebody was told to stop, somewhere. */
  look(): void
  close(): void
}

/**
 * Whoever cancels marks the steps in hand and wakes all workers; one that hears nothing (no LISTEN behind its pooler) looks
 * by itself. One statement asks for all calls.
 */
export function createAborts(db: Executor, { everyMs, logger }: { everyMs: number; logger: Logger }): Aborts {
  const calls = new Set<StepCall>()
  let timer: NodeJS.Timeout | undefined
  let looking = false
  let again = false

  async function lookNow(): Promise<void> {
    if (calls.size === 0) return
    again = looking
    if (looking) return
    looking = true
    try {
      const asked = [...calls]
      const rows = await db.run<{ place: number }>(statement, [
        asked.map(({ item }) => item.workflowId),
        asked.map(({ item }) => item.number),
        asked.map(({ item }) => item.epoch),
      ])
      for (const { place } of rows) stop(asked[place - 1])
    } catch (error) {
      logger.debug({ err: error }, 'could not ask which calls are to stop; asking again')
    } finally {
      looking = false
      if (again) void lookNow()
    }
  }

  function stop(call: StepCall | undefined): void {
    if (!call || !calls.has(call)) return
    call.abort(new HoldfastError('HF_STOPPED', { what: `the step, with workflow instance ${call.item.workflowId},` }))
  }

  return {
    join(call) {
      calls.add(call)
      // Most calls are over before the first look.
      timer ??= setInterval(() => {
        if (calls.size > 0) return void lookNow()
        clearInterval(timer)
        timer = undefined
      }, everyMs).unref()
      return () => calls.delete(call)
    },
    look: () => void lookNow(),
    close: () => clearInterval(timer),
  }
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
