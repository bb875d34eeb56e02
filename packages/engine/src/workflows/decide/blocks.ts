import type { Block } from './plan.js'
import { hasFailed, isDone, type Payload } from './state.js'
import type { Transition } from './transition.js'

/**
 * The output of a path that has ended, from its first step on along the sides that were really taken; nothing while it is
 * under way. This is read from the records each time: there is no counter that could be wrong.
 */
export function outputOfPath(t: Transition, first: string): Payload | null {
  for (let name = first; ; ) {
    const step = t.step(name)
    if (step === undefined || !isDone(step)) return null
    const next = t.plan.nextOf(step)
    if (next === undefined) return step.output
    name = next
  }
}

/** Whether a path that has ended called no handler and needed no person: it had only conditions, and forks of such. */
export function didNothing(t: Transition, first: string): boolean {
  for (let name: string | undefined = first; name !== undefined; ) {
    const step = t.step(name)
    if (step === undefined) return true
    const { type } = t.plan.step(name)
    if (type === 'task' || type === 'human') return false
    const block = t.plan.blockOf(name)
    if (block?.branches.some((branch) => outputOfPath(t, branch) !== null && !didNothing(t, branch))) return false
    name = t.plan.nextOf(step)
  }
  return true
}

/** Whether a path can never end well any more: a step of it has failed, and no `any` join above that step makes up for it. */
export function pathHasFailed(t: Transition, first: string): boolean {
  for (let name = first; ; ) {
    const step = t.step(name)
    if (step === undefined) return false
    if (hasFailed(step)) return true
    const block = t.plan.blockOf(name)
    if (block !== undefined && isOpen(t, block)) return blockHasFailed(t, block)
    const next = isDone(step) ? t.plan.nextOf(step) : undefined
    if (next === undefined) return false
    name = next
  }
}

/** One failed branch is enough where all have to end; where any will do, all of them. */
export function blockHasFailed(t: Transition, { branches, strategy }: Block): boolean {
  const failed = (branch: string) => pathHasFailed(t, branch)
  return strategy === 'any' ? branches.every(failed) : branches.some(failed)
}

/** Its join has not fired. */
function isOpen(t: Transition, block: Block): boolean {
  const closer = t.step(block.closer)
  return closer !== undefined && !isDone(closer)
}
