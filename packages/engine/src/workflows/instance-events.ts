// Changes workflow instances: each event is decided on the known state, and the decision is written on the condition that
// the state has not changed (`kernel/model/decider.ts`). Workers, operators and the client report events here; nothing
// else writes instances. Events of one instance are decided in the order in which they were reported.

import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../kernel/errors.js'
import {
  createDecider,
  type Decided,
  type EventGroup,
  type EventOutcome,
  type Executor,
  type Runtime,
} from '../kernel/model/index.js'
import { decide } from './decide/decide.js'
import { changesNothing, type Decision } from './decide/decision.js'
import type { InstanceEvent } from './decide/instance-event.js'
import type { Payloads } from './decide/payloads.js'
import type { InstanceState } from './decide/state.js'
import type { WorkflowDefinition } from './definition/definition.js'
import type { Definitions } from './definitions.js'
import { instanceNotFound } from './not-found.js'
import { loadInstances } from './queries/load-instances.js'
import { writeInstances } from './queries/write-instances.js'
import { addDecision, changeDocument, noChange } from './store/document.js'
import { createKeptInstances } from './store/kept-instances.js'
import { afterWrite, type StepClaim, type StoredInstance, withClaim, withDecision } from './store/stored-instance.js'

/** An event of an instance, and the claim of the worker that reports it. */
export interface ReportedEvent {
  readonly id: string
  readonly event: InstanceEvent
  readonly claim?: StepClaim
}

/** An event whose decision is committed. */
export interface AppliedEvent {
  readonly definition: WorkflowDefinition
  readonly decision: Decision
  readonly state: InstanceState
  /** When the instance was made, by this program's `performance.now()`. */
  readonly madeAt: number
}

interface Options extends Pick<Runtime, 'logger' | 'metrics'> {
  readonly definitions: Definitions
  readonly payloads: Payloads
  /** Called for everything that is committed. */
  readonly applied: (applied: AppliedEvent) => void
}

/** A claim or a heartbeat locks a step for a moment only. */
const LOCKED_ROUNDS = 10
const LOCKED_MS = 10

/** What one write makes of an instance. */
interface InstanceWrite {
  readonly document: string
  readonly after: StoredInstance
}

/** The one way in which instances change. */
export function createInstanceEvents(db: Executor, options: Options) {
  const { definitions, payloads, applied: committed, logger, metrics } = options
  const kept = createKeptInstances()
  const decider = createDecider<ReportedEvent, StoredInstance, InstanceWrite, AppliedEvent>(db, {
    name: 'workflows.write',
    known({ id, events }) {
      const stored = kept.take(id)
      return stored && events.every(({ claim }) => knowsCall(stored, claim)) ? stored : undefined
    },
    read: (executor, groups) => loadInstances(executor, definitions, groups),
    decide: (stored, group) => decideGroup(stored, group, payloads),
    write: writeInstances,
    written: ({ after }) => kept.set(after),
    missing: (id) => ({ failed: instanceNotFound(id) }),
    logger,
    metrics,
  })

  return {
    /** Resolves when the decision is committed. */
    async apply(reported: ReportedEvent): Promise<AppliedEvent> {
      const applied = await decider.apply(reported.id, reported)
      committed(applied)
      return applied
    },
    /**
     * Decides and writes inside a transaction, on a state that it locks; the transaction must be rolled back if this throws. An
     * event that changes nothing throws `HF_LEASE_LOST`. The caller calls `committed` when its transaction has committed.
     */
    async applyWithin(tx: Executor, reported: ReportedEvent): Promise<AppliedEvent> {
      const { id, claim } = reported
      kept.take(id)
      await tx.run(lockStatement, [id])
      for (let round = 0; round < LOCKED_ROUNDS; round += 1) {
        const applied = await decider.applyWithin(tx, id, reported)
        // The end of the call was decided without it: what the transaction wrote must not stay.
        if (applied && changesNothing(applied.decision)) {
          throw new HoldfastError('HF_LEASE_LOST', { id, epoch: String(claim?.epoch ?? '') })
        }
        if (applied) return applied
        await sleep(LOCKED_MS)
      }
      throw new HoldfastError('HF_INSTANCE_HELD', { id })
    },
    /** The same for what an operator asks for: waits for transactions that have locked the instance, and may change nothing. */
    async operateWithin(tx: Executor, reported: ReportedEvent): Promise<AppliedEvent> {
      const { id } = reported
      kept.take(id)
      await tx.run(lockStatement, [id])
      await tx.run(lockStepsStatement, [id])
      const applied = await decider.applyWithin(tx, id, reported)
      if (applied) return applied
      throw new HoldfastError('HF_INSTANCE_HELD', { id })
    },
    committed,
    /** An instance that was just started here. */
    remember: (stored: StoredInstance) => kept.set(stored),
    close: (timeout?: number) => decider.close(timeout),
  }
}

/** Decides the events of one instance one after the other; one that is refused leaves the others alone. */
function decideGroup(
  stored: StoredInstance,
  { events, token }: EventGroup<ReportedEvent>,
  payloads: Payloads,
): Decided<InstanceWrite, AppliedEvent> {
  const { definition, madeAt } = stored
  const { before, lost } = withClaims(stored, events)
  const change = noChange()
  let after = before
  let changes = false
  const outcomes = events.map((reported): EventOutcome<AppliedEvent> => {
    const failed = lost.get(reported)
    if (failed) return { failed }
    try {
      const decision = decide(definition, after.state, reported.event, { payloads })
      addDecision(change, decision)
      changes ||= !changesNothing(decision)
      after = withDecision(after, decision)
      return { done: { definition, decision, state: after.state, madeAt } }
    } catch (error) {
      return { failed: toError(error) }
    }
  })
  if (!changes) return { outcomes }
  return { outcomes, write: { document: changeDocument(before, change, token), after: afterWrite(before, after) } }
}

/**
 * The state with all claims in it that are reported on, before anything is decided: the first decision must not take a step
 * for one that no worker has which the second is about. Also the events whose lease is lost.
 */
function withClaims(stored: StoredInstance, events: readonly ReportedEvent[]) {
  const lost = new Map<ReportedEvent, Error>()
  let before = stored
  for (const reported of events) {
    try {
      if (reported.claim) before = withClaim(before, reported.claim)
    } catch (error) {
      lost.set(reported, toError(error))
    }
  }
  return { before, lost }
}

/**
 * Whether a state that is kept has the call in it that a claim is about. A claim that begins a call says all of it; one that
 * takes over the call of another worker does not, and a kept state knows nothing of calls that other workers have begun.
 */
const knowsCall = ({ epochs }: StoredInstance, claim: StepClaim | undefined): boolean =>
  claim === undefined || claim.fresh || epochs.get(claim.step) === claim.epoch

const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

const lockStatement = {
  name: 'workflows.lock',
  text: 'select revision from holdfast.workflow where id = $1 for no key update',
}
// Only waits: which step a decision changes is not known before it is made.
const lockStepsStatement = {
  name: 'workflows.lock-steps',
  text: `
    select number
    from holdfast.workflow_step
    where workflow_id = $1 and number >= 0
    order by number
    for no key update`,
}
