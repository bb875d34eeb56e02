// Drives user code forward from the end of the record: begins calls, records their ends, checks waits, until nothing is
// left to do. `executor.ts` calls `drive` again after each thing that came in. What to do is decided by `next.ts` and
// `absorb.ts`; here it is carried out. No call may begin before everything that led to it is committed.

import { HoldfastError } from '../../kernel/errors.js'
import { processOf } from '../refused.js'
import { absorb } from './absorb.js'
import type { Effect } from './apply.js'
import { attemptStep, databaseTrouble, isToTurn } from './attempt.js'
import { attemptTransaction } from './attempt-transaction.js'
import type { Arrival, Attempted } from './attempted.js'
import type { RemoteSpec } from './call-spec.js'
import type { Call, CallState } from './calls.js'
import { decideCancel, decideFailure, decideLate, toRecorded } from './decisions.js'
import type { Execution } from './execution.js'
import { throwIfLost } from './lost.js'
import { Mismatch } from './mismatch.js'
import { type DriveResult, isDecided, isPastDeadline, next, type Surroundings } from './next.js'
import { checkWaits, recordRemotes, remoteId } from './waiting.js'

/**
 * Continues until nothing runs and nothing can begin: records calls that have ended, one at a time; checks the waits; begins
 * new calls once everything that led to them is committed. Suspension and compensation begin only when all running calls have
 * ended and are recorded.
 */
export async function drive(execution: Execution): Promise<DriveResult> {
  const { arrivals, journal, state } = execution
  for (;;) {
    throwIfLost(execution)
    if (journal.committing) {
      await journal.committing
      continue
    }
    const around = surroundings(execution)
    const effect = advance(execution, around)
    if (effect) {
      if (effect !== 'none') await execution.perform(effect)
      continue
    }
    const action = next(state, around)
    if (action.kind === 'start') {
      if (journal.dirty) {
        await journal.flush()
        if (arrivals.length > 0) continue
      }
      for (const call of action.calls) void start(execution, call)
    } else if (action.kind === 'pause') {
      if (state.finalDecision?.to === 'UNWIND') execution.cancelCalls()
      if (journal.dirty) await journal.flush()
      else await execution.wakeUp.wait(action.forMs)
    } else {
      return action
    }
  }
}

const surroundings = (execution: Execution): Surroundings => ({
  now: execution.now(),
  deadline: execution.item.deadline,
  running: execution.running,
  stopping: execution.parts.stopping(),
})

/** Lets the next thing that has happened take effect: an attempt that has ended, a wait that is over. Undefined when nothing has. */
function advance(execution: Execution, around: Surroundings): Effect | undefined {
  const { arrivals, state } = execution
  const arrival = arrivals.shift()
  if (arrival) return absorb(execution, arrival)
  decideTurn(execution, around)
  if (state.finalDecision && !state.unwinding) recordRemotes(execution)
  if (isDecided(state)) return undefined
  try {
    return checkWaits(execution)
  } catch (error) {
    if (error instanceof Mismatch) throw error
    // A reducer or condition that throws is a failure of this process only.
    execution.decide(decideFailure({ ...toRecorded(execution.classify(error)), kind: 'PERMANENT' }))
    return 'none'
  }
}

/** The process is cancelled, past its deadline, or `execute` threw. */
function decideTurn(execution: Execution, around: Surroundings): void {
  const { item, parts, state } = execution
  const { ending, cancel } = state
  if (cancel) execution.decide(decideCancel(cancel))
  if (state.finalDecision) return
  if (ending) {
    if ('error' in ending) execution.fail(ending.error)
  } else if (isPastDeadline(state, around)) {
    const passed = new HoldfastError('HF_DEADLINE_EXCEEDED', processOf(parts.definition.name, item.id))
    const error = toRecorded(execution.classify(passed))
    const action = parts.settings.deadlineAction ?? parts.definition.deadlineAction
    execution.decide(decideLate(action, 'DEADLINE', { ...error, code: 'DEADLINE_EXCEEDED' }))
  }
}

async function start(execution: Execution, call: CallState): Promise<void> {
  execution.apply({ kind: 'BEGIN', call })
  execution.running += 1
  execution.hasBegun = true
  try {
    arrive(execution.arrivals, { call, attempted: await attempt(execution, call) })
  } catch (error) {
    execution.lost ??= error instanceof Error ? error : new Error(String(error))
  }
  execution.running -= 1
  execution.wakeUp.fire()
  if (call.spec.kind === 'TRANSACTION') execution.journal.endCommit()
}

/** What is on record already has its number, and takes effect before whatever still waits for one. */
function arrive(arrivals: Arrival[], arrival: Arrival): void {
  const isRecorded = ({ attempted }: Arrival) => 'recorded' in attempted
  const place = isRecorded(arrival) ? arrivals.findIndex((other) => !isRecorded(other)) : -1
  if (place < 0) arrivals.push(arrival)
  else arrivals.splice(place, 0, arrival)
}

function attempt(execution: Execution, call: Call): Promise<Attempted> {
  const { spec } = call
  switch (spec.kind) {
    case 'STEP':
    case 'SIDE_EFFECT':
      return attemptStep(execution, call, spec)
    case 'TRANSACTION':
      return attemptTransaction(execution, call, spec)
    case 'COMMAND':
    case 'CHILD':
      return attemptRemote(execution, call, spec)
    default:
      throw new Error(`a ${spec.kind} is not run`)
  }
}

async function attemptRemote(execution: Execution, call: Call, spec: RemoteSpec): Promise<Attempted> {
  const startedAt = execution.now()
  // Whatever led to it is on record before it leaves.
  while (execution.journal.uncommitted) await execution.journal.flush()
  if (isToTurn(execution)) return { withdrawn: true }
  try {
    await spec.begin(remoteId(execution, call))
    return { begun: true }
  } catch (error) {
    const trouble = databaseTrouble(execution, error)
    // It may have arrived although the response was lost; a refused one was never sent.
    if (trouble) return { ...trouble, outcome: 'unknown' }
    return { failed: execution.classify(error), startedAt, outcome: undefined }
  }
}
