// What an execution does next, decided purely from its state and the time. `drive.ts` carries it out. Nothing new may
// begin after the final decision, and an execution may end only when nothing of it runs.

import { LONGEST_TIMER_MS } from '../../kernel/duration/duration.js'
import type { CallState } from './calls.js'
import type { FinalDecision } from './decisions.js'
import { type Continuation, type ExecutionState, isOver } from './state.js'

/** What surrounds the execution at this moment. */
export interface Surroundings {
  /** Milliseconds of the database's clock. */
  readonly now: number
  readonly deadline: number | null
  /** Calls of user code that run. */
  readonly running: number
  /** The worker is being stopped. */
  readonly stopping: boolean
}

/** Why an execution stops when nothing of it runs any more. */
export type DriveResult =
  | { readonly kind: 'ended'; readonly value: unknown }
  | { readonly kind: 'decided'; readonly finalDecision: FinalDecision }
  | ({ readonly kind: 'continue' } & Continuation)
  | { readonly kind: 'stopping' }
  | { readonly kind: 'waiting' }

export type Next =
  | { readonly kind: 'start'; readonly calls: readonly CallState[] }
  /** Until something comes in, or so many milliseconds. */
  | { readonly kind: 'pause'; readonly forMs: number | undefined }
  | DriveResult

export function next(state: ExecutionState, around: Surroundings): Next {
  const calls = startable(state, around.now)
  if (calls.length > 0 && !around.stopping) return { kind: 'start', calls }
  if (around.running > 0 || isForeignWait(state)) return { kind: 'pause', forMs: untilNext(state, around) }
  const { finalDecision, ending, continuation } = state
  if (finalDecision) return { kind: 'decided', finalDecision }
  if (continuation) return { kind: 'continue', ...continuation }
  if (ending && 'value' in ending) return { kind: 'ended', value: ending.value }
  return calls.length > 0 ? { kind: 'stopping' } : { kind: 'waiting' }
}

/** Where it goes is known: nothing that comes from outside changes the way of user code any more. */
export const isDecided = (state: ExecutionState): boolean => state.finalDecision !== undefined || isOver(state)

/** Checked when a call is about to start, or when the process would suspend; a running call is never interrupted. */
export function isPastDeadline(state: ExecutionState, { now, deadline, running }: Surroundings): boolean {
  return deadline !== null && deadline <= now && (running === 0 || startable(state, now).length > 0)
}

/** New calls, and those whose next attempt is due, unless `execute` is over; none after the final decision. */
function startable(state: ExecutionState, now: number): CallState[] {
  if (state.finalDecision) return []
  const found: CallState[] = []
  const over = isOver(state)
  for (const call of state.calls.open()) {
    const due = call.progress === 'retrying' && !over && (call.nextAt ?? 0) <= now
    if (due || call.progress === 'new') found.push(call)
  }
  return found
}

/** User code awaits something that is no call of ours: there is nothing to do but to keep the lease until it is cancelled. */
const isForeignWait = (state: ExecutionState): boolean => !isDecided(state) && state.calls.open().size === 0

/** Milliseconds until a wait times out or an attempt is due beside what is running; undefined when nothing will. */
function untilNext(state: ExecutionState, { now, deadline, running, stopping }: Surroundings): number | undefined {
  if (isDecided(state)) return undefined
  // A running call is never interrupted.
  let due = deadline !== null && running === 0 ? deadline : Number.POSITIVE_INFINITY
  for (const { progress, nextAt } of state.calls.open()) {
    const counts = progress === 'waiting' || (progress === 'retrying' && !stopping)
    if (counts && nextAt !== undefined && nextAt < due) due = nextAt
  }
  return due === Number.POSITIVE_INFINITY ? undefined : Math.min(Math.max(0, due - now), LONGEST_TIMER_MS)
}
