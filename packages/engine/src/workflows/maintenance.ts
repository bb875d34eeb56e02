import type { Duration } from '../kernel/duration/duration.js'
import { type By, checkBy, type Database, operatorCall } from '../kernel/model/index.js'
import { anything, declareOptions, duration, integer, number, required } from '../kernel/validation/declared.js'
import { choiceOption } from '../kernel/validation/options.js'
import type { InstanceEnd } from './states.js'

export interface CleanUpOptions {
  /** How long ago they ended. */
  readonly olderThan: Duration
  /** Default: all terminal statuses. */
  readonly statuses?: readonly InstanceEnd[]
  /** How many to remove at most. If fewer were removed, there are no more. Default: 1,000. */
  readonly limit?: number
}

/** What operators set for the workflows of the whole installation. */
export interface WorkflowSettings {
  /** Points of priority that a waiting step gains per second, so that none starves; 0: none. Default: 0.5. */
  readonly aging: number
}

/** What operators do with the workflows of the whole installation. */
export interface WorkflowMaintenance {
  /** What operators set for the workflows of the installation. */
  settings(): Promise<WorkflowSettings>
  /**
   * Changes settings of the whole installation: they apply to steps that are queued from now on.
   *
   * @example
   * await hf.workflows.configure({ aging: 0.1 }, { actor: 'ann', reason: 'night run first' })
   */
  configure(settings: WorkflowSettings, by: By): Promise<void>
  /** Removes instances that ended long ago; those with a dead letter wait for a person. Returns how many. */
  cleanUp(options: CleanUpOptions): Promise<number>
}

const ENDS = ['COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED'] as const satisfies readonly InstanceEnd[]

export function createWorkflowMaintenance(db: Database): WorkflowMaintenance {
  return {
    async settings() {
      const [row] = await db.run<{ aging: number }>(agingStatement)
      return { aging: row?.aging ?? 0 }
    },
    async configure(settings, by) {
      const where = 'workflows.configure'
      const { actor, reason } = checkBy(where, by)
      const { aging } = checkSettings(where, settings)
      await operatorCall(db, 'configure workflows', (tx) => tx.run(setAgingStatement, [aging, actor, reason]))
    },
    async cleanUp(options) {
      const where = 'workflows.cleanUp'
      const { olderThan, limit } = checkCleanUp(where, options)
      const statuses = options.statuses ?? ENDS
      for (const status of statuses) choiceOption(where, 'statuses', status, ENDS)
      const [row] = await db.run<{ removed: number }>(cleanUpStatement, [statuses, olderThan, limit])
      return row?.removed ?? 0
    },
  }
}

const checkSettings = declareOptions({ aging: required(number({ min: 0, max: 1_000 })) })
const checkCleanUp = declareOptions({
  olderThan: required(duration()),
  statuses: anything,
  limit: integer({ min: 1, max: 100_000, default: 1_000 }),
})

const agingStatement = { name: 'workflows.aging', text: 'select holdfast.workflow_aging() as aging' }
const setAgingStatement = { name: 'workflows.set-aging', text: 'select holdfast.set_workflow_aging($1, $2, $3)' }
const cleanUpStatement = {
  name: 'workflows.clean-up',
  text: `select holdfast.clean_up_workflows($1::text[], holdfast.now() - $2::float8 * interval '1 ms', $3) as removed`,
}
