// The steps of workflows as a source of work for the loop: claim, extend, release, expire. A step that was released without a call must
// be as if it had not been claimed.

import { type Executor, type Extended, type LeaseRef, lossesOf, type WorkSource } from '../kernel/model/index.js'
import { type ClaimedStep, claimSteps, parseStepId } from './queries/claim-steps.js'

interface StepSourceOptions {
  readonly worker: string
  readonly handlers: () => readonly string[]
  readonly leaseMs: number
  /** Claimed, not called, and cancelled meanwhile: it is not queued again. */
  readonly calledOff: (step: CalledOff) => Promise<void>
}

/** A step that cannot be released as if it had not been claimed. */
export interface CalledOff {
  readonly workflow_id: string
  readonly number: number
  readonly epoch: number
  readonly definition_id: number
  readonly compensates: boolean
  readonly attempts: number
}

/**
 * The steps of workflows as a source of work. A lane is a handler, and one claim goes through all of them in the order of
 * priorities. `leaseMs` is how long a step is held whose workflow does not say it.
 */
export function stepSource(
  db: Executor,
  { worker, handlers, leaseMs, calledOff }: StepSourceOptions,
): WorkSource<ClaimedStep> {
  return {
    model: 'workflows',
    types: handlers,
    claim: (request) => claimSteps(db, request, leaseMs),
    async extend(leases, beatMs) {
      const ids = new Map(leases.map(({ id }) => [plainId(id), id]))
      const [row] = await db.run<Extended>(extendStatement, [...columns(leases), worker, leaseMs, beatMs])
      const named = (found: readonly string[] = []) => found.flatMap((id) => ids.get(id) ?? [])
      return { extended: named(row?.extended), lost: named(row?.lost) }
    },
    async release(leases) {
      const freshness = leases.map(({ id }) => parseStepId(id).fresh)
      const rows = await db.run<CalledOff>(releaseStatement, [...columns(leases), freshness])
      await Promise.all(rows.map(calledOff))
    },
    losses: lossesOf(db, {
      source: 'workflows',
      idOf: plainId,
      async expire(leases) {
        await db.run(expireStatement, columns(leases))
      },
    }),
    async oldestDueSeconds() {
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [handlers()])
      return row?.seconds ?? null
    },
  }
}

/** Without the note whether the claim began a call. */
const plainId = (id: string) => id.replace('?', '')

function columns(leases: readonly LeaseRef[]) {
  const steps = leases.map(({ id }) => parseStepId(id))
  return [
    steps.map(({ workflowId }) => workflowId),
    steps.map(({ number }) => number),
    leases.map(({ epoch }) => epoch),
  ]
}

const extendStatement = {
  name: 'workflows.extend',
  text: 'select extended, lost from holdfast.extend_workflow_steps($1::uuid[], $2::smallint[], $3::int[], $4, $5, $6)',
}
const releaseStatement = {
  name: 'workflows.release',
  text: 'select * from holdfast.give_back_workflow_steps($1::uuid[], $2::smallint[], $3::int[], $4::boolean[])',
}
const expireStatement = {
  name: 'workflows.expire',
  text: 'select holdfast.expire_workflow_steps($1::uuid[], $2::smallint[], $3::int[])',
}
const oldestStatement = {
  name: 'workflows.oldest-due',
  text: 'select seconds from holdfast.oldest_workflow_steps($1::text[])',
}
