import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Failure } from '../kernel/failure/classify.js'
import { missingWorker, PAUSED, presenceIn } from '../kernel/results/presence.js'
import type { ResultSource, Settled } from '../kernel/results/results.js'
import { findInstances } from './queries/find-instances.js'
import { type InstanceStatus, instanceHasEnded, type StepStatus } from './states.js'

interface Found {
  readonly id: string
  readonly status: InstanceStatus
  readonly output: unknown
  readonly outputNotes: Notes | null
  readonly step: string | null
  readonly failure: Failure | null
}

interface ActiveStep {
  readonly name: string
  readonly status: StepStatus
  readonly handler: string | null
}

/** The ends of workflow instances (K-22): an output, an error that says why there is none, or a need for a person. */
export function workflowResults(db: Database, codec: Codec): ResultSource<Found> {
  const isLive = presenceIn(db, 'workflows')

  return {
    model: 'workflows',
    what: 'workflow instance',
    async find(ids) {
      return new Map((await db.run<Found & object>(findStatement, [ids])).map((found) => [found.id, found]))
    },
    settle({ id, status, output, outputNotes, step, failure }): Settled {
      if (status === 'COMPLETED') {
        return { value: output === null ? null : codec.decode({ json: output, notes: outputNotes }) }
      }
      const { code, message } = failure ?? { code: status, message: 'a person ended it' }
      if (instanceHasEnded(status)) {
        return { error: new HoldfastError('HF_WORKFLOW_NOT_COMPLETED', { id, status, code, message }) }
      }
      if (status !== 'DLQ') return undefined
      const details = { what: 'workflow instance', id, code, step: step ?? '', message }
      return { error: new HoldfastError('HF_NEEDS_ATTENTION', details) }
    },
    unknown: (id) => new HoldfastError('HF_UNKNOWN_INSTANCE', { id }),
    async why(_key, { id, status }) {
      const [instance] = await findInstances(db, codec, { id, limit: 1 })
      if (instance?.paused) return { id, status, why: PAUSED }
      const steps = await db.run<ActiveStep & object>(stepsStatement, [id])
      const missing: string[] = []
      for (const handler of new Set(steps.flatMap((step) => step.handler ?? []))) {
        if (handler !== ROOT && !(await isLive(handler))) missing.push(missingWorker('workflows', handler))
      }
      const active = steps.map((step) => `${step.name} is ${step.status}`)
      const why = active.length === 0 ? ['no step is active'] : [active.join(', ')]
      const workers = missing.length === 0 ? ['a live worker has every handler that it waits for'] : missing
      return { id, status, why: [...why, ...workers].join('; ') }
    },
  }
}

/** The start of an instance that begins later is queued under this name. */
const ROOT = '_root_'

const findStatement = {
  name: 'workflows.find-ends',
  text: `
    select workflow.id, status, output, output_notes as "outputNotes", failed_step as step, failure
    from pg_catalog.unnest($1::uuid[]) as asked (id)
    join holdfast.workflow on workflow.id = asked.id`,
}
const stepsStatement = {
  name: 'workflows.find-active-steps',
  text: `
    select name, status, handler
    from holdfast.workflow_step
    where workflow_id = $1 and status in ('PENDING', 'RUNNING', 'WAITING_DECISION', 'COMPENSATING')
    order by number
    limit 10`,
}
