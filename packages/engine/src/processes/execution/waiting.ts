// Waits: conditions, events, sleeps, and the ends of commands and children. `drive.ts` checks them while the process
// runs; `executor.ts` uses the functions for commands and children before a compensation and at an end. Responses enter
// the state one at a time, and all waits are checked after each. The time of a timeout is fixed when the wait is first
// recorded.

import { HoldfastError } from '../../kernel/errors.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { derivedId } from '../../kernel/ids/derived-id.js'
import { isTransient } from '../../kernel/model/index.js'
import type { RecordedFailure } from '../history.js'
import { type Effect, responseOf } from './apply.js'
import { encodeResult } from './attempt.js'
import type { EncodedResult } from './attempted.js'
import type { RemoteSpec, WaitingSpec } from './call-spec.js'
import type { Call, CallState } from './calls.js'
import { toRecorded } from './decisions.js'
import type { Execution } from './execution.js'
import { fromUserCode, settled } from './from-user-code.js'
import { throwIfLost } from './lost.js'
import type { ChildEnd, CommandReply } from './remotes.js'

type WaitingCall = Call & { readonly spec: WaitingSpec }
export type RemoteCall = Call & { readonly spec: RemoteSpec }

/** What a call has been waiting for: the number of the response, and what it says. */
interface WaitResult {
  readonly response?: number
  readonly result?: EncodedResult
  readonly failed?: { readonly error: RecordedFailure; readonly outcome: 'refused' | 'unknown' }
}

/** Checks whether something that the process waits for has arrived. Undefined when nothing has. */
export function checkWaits(execution: Execution): Effect | undefined {
  const open = execution.state.calls.with('waiting') as WaitingCall[]
  if (open.length === 0) return undefined
  const completed = completeFirst(execution, open)
  if (completed) return completed
  for (const call of open) if (!call.armed) arm(execution, call)
  const late = open.find((call) => call.nextAt !== undefined && call.nextAt <= execution.now())
  return late && timeOut(execution, late)
}

/**
 * Records commands and children that have begun. A process that turns to compensation, or to troubleshooting, no longer checks
 * its waits, and the worker that continues it would not know of them.
 */
export function recordRemotes(execution: Execution): void {
  for (const call of underWay(execution)) if (!call.armed) arm(execution, call)
}

/**
 * Lets commands and children end before anything is compensated: a payment must not be made after its refund, and a child
 * compensates before its parent does. Returns those that have not ended yet.
 */
export async function completeRemotes(execution: Execution): Promise<readonly RemoteCall[]> {
  for (;;) {
    const open = underWay(execution)
    const completed = completeFirst(execution, open)
    if (!completed) return open
    await execution.perform(completed)
  }
}

/**
 * Commands and children that may have been started by an execution that was interrupted: made certain of, so that they can be
 * cancelled and waited for, and so that a worker that was only frozen cannot start them later.
 */
export async function withholdRemotes(execution: Execution): Promise<void> {
  for (const call of remotesOf(execution)) {
    if (call.underWay || !call.begun) continue
    throwIfLost(execution)
    const startedId = remoteId(execution, call)
    try {
      await call.spec.withhold(startedId)
    } catch (thrown) {
      if (isTransient(thrown)) throw thrown
      // It cannot be started, so it was not.
      const error = toRecorded(execution.classify(thrown))
      execution.recordCall(call, { status: 'FAILED', detail: { error, outcome: 'notDone' } })
      continue
    }
    execution.recordCall(call, { status: 'STARTED', detail: { startedId } })
  }
}

/** Ends commands that have not begun, and cancels children. */
export async function cancelRemotes(
  execution: Execution,
  open: readonly RemoteCall[],
  compensate: boolean,
): Promise<void> {
  for (const call of open) {
    throwIfLost(execution)
    await call.spec.cancel(remoteId(execution, call), compensate)
  }
}

export const underWay = (execution: Execution): RemoteCall[] => remotesOf(execution).filter((call) => call.underWay)

function remotesOf({ state }: Execution): RemoteCall[] {
  return [...state.calls.open()].filter((call): call is RemoteCall & CallState => 'begin' in call.spec)
}

/**
 * Completes the first of these calls whose wait is over. Responses enter the state one at a time, and after
 * each all are asked in the order of the calls, so that no condition misses a state between two responses.
 */
function completeFirst(execution: Execution, open: readonly WaitingCall[]): Effect | undefined {
  if (open.length === 0) return undefined
  for (;;) {
    for (const call of open) {
      const found = resultOf(execution, call)
      if (found) return complete(execution, call, found)
    }
    if (!execution.state.data.applyNext()) return undefined
  }
}

function resultOf(execution: Execution, call: WaitingCall): WaitResult | undefined {
  const { spec } = call
  if (spec.kind === 'SLEEP') return undefined
  if (spec.kind === 'WAIT') return holds(call.id, spec.condition) ? {} : undefined
  const response = execution.state.data.find(responseOf(spec), endOf(execution, call))
  if (!response) return undefined
  const { number, data } = response
  if (spec.kind === 'EVENT') return { response: number }
  const end =
    spec.kind === 'COMMAND' ? commandEnd(execution, data as CommandReply) : childEnd(execution, data as ChildEnd)
  if ('failed' in end) return { response: number, failed: end.failed }
  const value = execution.parts.codec.decode({ json: end.result ?? null, notes: end.notes ?? null })
  return { response: number, result: encodeResult(execution, call, value) }
}

/** Which responses are about this call. By its id, not by its name: an earlier generation may have used that too. */
function endOf(execution: Execution, call: WaitingCall): ((data: unknown) => boolean) | undefined {
  if (call.spec.kind === 'EVENT') return undefined
  const id = remoteId(execution, call)
  return (data) => (data as CommandReply).commandId === id || (data as ChildEnd).id === id
}

function holds(wait: string, condition: () => unknown): boolean {
  return fromUserCode(
    () => Boolean(settled(condition(), `the condition of the wait \`${wait}\``)),
    (problem, cause) => new HoldfastError('HF_CONDITION_THREW', { wait, problem }, { cause }),
  )
}

type RemoteEnd = Pick<CommandReply, 'result' | 'notes'> | { readonly failed: NonNullable<WaitResult['failed']> }

function commandEnd(execution: Execution, reply: CommandReply): RemoteEnd {
  if (reply.outcome === 'SUCCESS') return reply
  const error = new BusinessError(reply.errorMessage ?? `the command was ${reply.outcome.toLowerCase()}`, {
    code: reply.errorCode ?? `COMMAND_${reply.outcome}`,
  })
  // A command that was cancelled after it had been called may have had its effect.
  return failed(execution, error, reply.effect === 'unknown' ? 'unknown' : 'refused')
}

function childEnd(execution: Execution, { id, status, result, resultNotes, error, undone }: ChildEnd): RemoteEnd {
  if (status === 'COMPLETED') return { result, notes: resultNotes ?? null }
  const why = error ? `: ${error.message}` : ''
  const ended = new BusinessError(`the child ${id} ended ${status}${why}`, { code: `CHILD_${status}` })
  // A child that has not compensated leaves that to its parent.
  return failed(execution, ended, status === 'COMPENSATED' || undone ? 'refused' : 'unknown')
}

const failed = (execution: Execution, error: Error, outcome: 'refused' | 'unknown') => ({
  failed: { error: toRecorded(execution.classify(error)), outcome },
})

/** The id of what a call starts elsewhere: the same however often the process is replayed. */
export function remoteId({ item }: Execution, call: Call): string {
  return derivedId('process call', item.id, item.generation, call.spec.kind, call.name, call.occurrence)
}

function complete(execution: Execution, call: WaitingCall, { response, result, failed }: WaitResult): Effect {
  const thrown = 'onFailure' in call.spec && call.spec.onFailure === 'throw'
  const detail = { ...(response === undefined ? {} : { response }), ...(failed ? { ...failed, thrown } : {}) }
  return execution.recordCall(call, { status: failed ? 'FAILED' : 'COMPLETED', detail }, result)
}

/** The time of a timeout is fixed when the wait is first reached, and stands in the record. */
function arm(execution: Execution, call: WaitingCall): void {
  const { spec } = call
  const now = execution.now()
  const timeoutMs = spec.kind === 'SLEEP' ? spec.forMs : timeoutOf(execution, spec)
  const until = spec.kind === 'SLEEP' ? spec.until : undefined
  const nextAt = until ?? (timeoutMs === undefined ? undefined : Math.floor(now + timeoutMs))
  execution.recordCall(call, {
    status: 'STARTED',
    ...(nextAt === undefined ? {} : { nextAt }),
    detail: {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...('begin' in spec ? { startedId: remoteId(execution, call) } : {}),
    },
  })
}

function timeoutOf({ parts }: Execution, spec: Exclude<WaitingSpec, { kind: 'SLEEP' }>): number | undefined {
  // A command or a child has no time limit, unless the call gives one.
  if ('begin' in spec) return spec.timeoutMs
  return spec.timeoutMs ?? parts.settings.waitTimeoutMs ?? parts.definition.waitTimeoutMs
}

function timeOut(execution: Execution, call: WaitingCall): Effect {
  const { spec } = call
  if (spec.kind === 'SLEEP') return execution.recordCall(call, { status: 'COMPLETED', detail: {} })
  if (spec.onTimeout === 'return')
    return execution.recordCall(call, { status: 'COMPLETED', detail: { timedOut: true } })
  const error = new BusinessError(`the wait \`${call.id}\` has timed out`, { code: 'WAIT_TIMEOUT' })
  const detail = { timedOut: true, error: toRecorded(execution.classify(error)) }
  return execution.recordCall(call, { status: 'FAILED', detail })
}
