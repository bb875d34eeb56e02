import type { Block } from './plan.js'
import { isActive, type StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** A branch won: unfinished steps of the others are skipped, completed ones stay. */
export function skipOtherBranches(t: Transition, block: Block, winner: string): void {
  for (const branch of block.branches) {
    if (branch !== winner) skipActive(t, ({ name }) => t.plan.isInside(name, { fork: block.fork, branch }))
  }
}

/**
 * Skips what has not ended. A handler that runs gets its AbortSignal; its item stays with its worker, because it may
 * complete anyway, which is then recorded. A step that was called before and waits for its next call has ended now:
 * its effect may have to be undone.
 */
export function skipActive(t: Transition, which: (step: StepState) => boolean): void {
  for (const step of t.steps()) if (isActive(step) && which(step)) skip(t, step)
}

function skip(t: Transition, step: StepState): void {
  if (step.inFlight) t.signalAbort(step.name)
  else if (t.plan.step(step.name).type === 'task') t.dequeue(step.name, 'step')
  if (step.dlq) condemn(t, step)
  else t.write(stepEvent('step_skipped', t.change(step, { status: 'SKIPPED', ...endOfCalls(t, step) })))
}

/** Its place in the order of what is undone, where it was called and no call is under way. */
export function endOfCalls(t: Transition, { inFlight, outcome }: StepState): Pick<StepState, 'order'> | undefined {
  return inFlight || outcome === null ? undefined : { order: t.nextOrder() }
}

/** It failed for good before, and no operator can requeue it now: as in saga mode, its own compensation runs if there is one. */
function condemn(t: Transition, step: StepState): void {
  t.removeDeadLetter(step.name)
  const failed = t.change(step, { status: 'FAILED', dlq: false })
  t.write(
    stepEvent('step_failed', failed, { attempts: failed.attempts, ...(step.failure && { failure: step.failure }) }),
  )
}
