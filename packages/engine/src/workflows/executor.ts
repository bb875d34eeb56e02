// Brings a claimed step to its end: asks whether it is to be called, calls it, reports the event. `worker.ts` runs it for each
// claimed item. What becomes of the step is decided in `decide/`; a call whose lease is lost must change nothing.

import { HoldfastError } from '../kernel/errors.js'
import type { Lease } from '../kernel/model/index.js'
import { type AttemptParts, attemptStep, type Called } from './attempt.js'
import { inquiryBefore } from './decide/calls.js'
import type { InstanceEvent } from './decide/instance-event.js'
import { compensationOf } from './definition/definition.js'
import { startOf } from './entry-check.js'
import type { AppliedEvent } from './instance-events.js'
import { type ClaimedStep, START } from './queries/claim-steps.js'
import { applyQueuedDecision } from './queued-decision.js'
import { StepCall } from './step-call.js'
import { claimOf } from './store/stored-instance.js'

/** Executes a claimed step: decides first if the claim is not simply the next call, calls the handler, reports the outcome. */
export function createStepExecutor(parts: AttemptParts) {
  const { definitions, events, handlers, aborts, logger, metrics, reports } = parts
  const tellOfMissing = oncePer(60_000)

  return async function execute(item: ClaimedStep, lease: Lease<ClaimedStep>): Promise<void> {
    try {
      if (item.number < START) return await applyQueuedDecision(parts, item)
      if (item.number === START) {
        await events.apply({ id: item.workflowId, event: await startOf(parts, item) })
        return
      }
      const called = await begin(item)
      if (called) await run(new StepCall(item, lease, parts.abortGraceMs), called)
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== 'HF_LEASE_LOST') throw error
      logger.warn({ id: item.id, handler: item.type, epoch: item.epoch }, 'lease lost: the call changes nothing')
    }
  }

  /** A claim that is not simply the next call of a step is decided first: an earlier call was lost, or the step is cancelled. */
  async function begin(item: ClaimedStep): Promise<Called | undefined> {
    const definition = await definitions.byId(item.definitionId)
    const step = definition.steps[item.number]
    if (step === undefined) throw new Error(`workflow ${definition.name} has no step ${item.number}`)
    const compensation = item.compensates ? compensationOf(step) : undefined
    const settings = item.compensates ? compensation : step.type === 'task' ? step : undefined
    if (settings === undefined) throw new Error(`step ${step.name} of workflow ${definition.name} has nothing to call`)
    const called = { definition, step: step.name, compensation: compensation?.name ?? null, settings }
    if (item.fresh) {
      const outcome = item.compensates ? item.compensationOutcome : item.outcome
      return { ...called, attempt: item.attempts, ...inquiryBefore(settings, outcome) }
    }
    const kind = item.compensates ? 'compensation' : 'step'
    const canInquire = handlers.find(item.type)?.inquire !== undefined
    const uncounted = item.lost !== undefined && !item.lost.counted
    const lost = { canInquire, uncounted }
    const { decision } = await report(item, called.step, { type: 'claimed', step: step.name, kind, ...lost })
    return decision.call === null ? undefined : { ...called, ...decision.call }
  }

  function report(item: ClaimedStep, step: string, event: InstanceEvent): Promise<AppliedEvent> {
    return events.apply({ id: item.workflowId, event, claim: claimOf(item, step) })
  }

  async function run(call: StepCall, called: Called): Promise<void> {
    const { item } = call
    const { step } = called
    const kind = item.compensates ? 'compensation' : 'step'
    const handler = handlers.find(item.type)
    if (!handler) {
      metrics.count('steps_released', { model: 'workflows', type: item.type })
      const quiet = !tellOfMissing(item.type)
      await report(item, step, { type: 'released', step, kind, because: 'handler_missing', quiet })
      return
    }
    const began = performance.now()
    const leave = aborts.join(call)
    const event = await attemptStep(parts, call, called, handler).finally(leave)
    call.ended = true
    const outcome = call.finished ? 'completed' : (event?.type ?? 'abandoned')
    const labels = { model: 'workflows', type: item.type, outcome }
    const runMs = performance.now() - began
    metrics.observe('step_milliseconds', labels, runMs)
    const isFirst = item.fresh && item.attempts === 1 && !item.compensates
    reports.times(
      { model: 'workflows', domain: called.definition.domain, type: called.definition.type },
      { runMs, ...(isFirst ? { queueMs: item.waitedMs } : {}) },
    )
    if (call.finished) return
    await report(item, step, event ?? { type: 'abandoned', step, kind })
  }
}

/** Whether a name may be reported again. */
function oncePer(milliseconds: number): (name: string) => boolean {
  const said = new Map<string, number>()
  return (name) => {
    const now = performance.now()
    if (now - (said.get(name) ?? Number.NEGATIVE_INFINITY) < milliseconds) return false
    said.set(name, now)
    return true
  }
}
