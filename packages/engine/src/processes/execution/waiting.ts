// Waits: conditions, events, sleeps, and the ends of commands and children. `drive.ts` checks them while the process
// runs; `executor.ts` uses the functions for commands and children before a compensation and at an end. Responses enter
// the state one at a time, and all waits are checked after each. The time of a timeout is fixed when the wait is first
// recorded.

import { isTransient } from '../../kernel/database/transient.js'
import { HoldfastError } from '../../kernel/errors.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { derivedId } from '../../kernel/ids/derived-id.js'
import type { RecordDetail, RecordedFailure } from '../history.js'
import { encodeResult } from './attempt.js'
import type { EncodedResult } from './attempted.js'
import type { RemoteSpec, WaitingSpec } from './call-spec.js'
import type { Call } from './calls.js'
import { type FinalDecision, toRecorded, trouble } from './decisions.js'
import type { Execution } from './execution.js'
import { fromUserCode, settled } from './from-user-code.js'
import { throwIfLost } from './lost.js'
import type { ChildEnd, CommandReply } from './remotes.js'

interface WaitingCall extends Call {
  readonly spec: WaitingSpec
}

export interface RemoteCall extends Call {
  readonly spec: RemoteSpec
}

/** What a call has been waiting for. */
type WaitResult =
  | { readonly value: EncodedResult; readonly detail?: RecordDetail }
  | { readonly failed: RecordedFailure; readonly outcome: 'refused' | 'unknown'; readonly detail?: RecordDetail }

const isWaiting = (call: Call): call is WaitingCall =>
  'condition' in call.spec || call.spec.kind === 'EVENT' || call.spec.kind === 'SLEEP' || 'begin' in call.spec

/**
 * Checks whether something that the process waits for has arrived. True when user code has continued, or the final decision
 * is made.
 */
export async function checkWaits(execution: Execution): Promise<boolean> {
  const open = execution.calls.with('waiting').filter(isWaiting)
  if (open.length === 0) return false
  if (await completeFirst(execution, open)) return true
  for (const call of open) if (!call.armed) arm(execution, call)
  const late = open.find((call) => call.nextAt !== undefined && call.nextAt <= execution.now())
  if (!late) return false
  await timeOut(execution, late)
  return true
}

/**
 * Records commands and children that have begun. A process that turns to compensation, or to troubleshooting, no longer checks
 * its waits, and the worker that continues it would not know of them.
 */
export function recordRemotes(execution: Execution): void {
  for (const call of remotesOf(execution)) if (call.underWay && !call.armed) arm(execution, call)
}

/**
 * Lets commands and children end before anything is compensated: a payment must not be made after its refund, and a child
 * compensates before its parent does. Returns those that have not ended yet.
 */
export async function completeRemotes(execution: Execution): Promise<readonly RemoteCall[]> {
  for (;;) {
    const open = remotesOf(execution).filter(({ underWay }) => underWay)
    if (open.length === 0 || !(await completeFirst(execution, open))) return open
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
    const base = { kind: call.spec.kind, name: call.name, occurrence: call.occurrence } as const
    try {
      await call.spec.withhold(startedId)
    } catch (error) {
      if (isTransient(error)) throw error
      // It cannot be started, so it was not.
      const failed = toRecorded(execution.classify(error))
      call.lastSeq = execution.journal.append({
        ...base,
        status: 'FAILED',
        detail: { error: failed, outcome: 'notDone' },
      }).seq
      call.attempted('notDone')
      call.progress = 'failed'
      continue
    }
    call.lastSeq = execution.journal.append({ ...base, status: 'STARTED', detail: { startedId } }).seq
    call.started()
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

export function remotesOf(execution: Execution): RemoteCall[] {
  return [...execution.calls.open()].filter((call): call is RemoteCall => 'begin' in call.spec)
}

/**
 * Completes the first of these calls whose wait is over. Responses enter the state one at a time, and after
 * each all are asked in the order of the calls, so that no condition misses a state between two responses.
 */
async function completeFirst(execution: Execution, open: readonly WaitingCall[]): Promise<boolean> {
  for (;;) {
    for (const call of open) {
      const result = resultOf(execution, call)
      if (!result) continue
      await record(execution, call, result)
      return true
    }
    if (!execution.state.applyNext()) return false
  }
}

function resultOf(execution: Execution, call: WaitingCall): WaitResult | undefined {
  const { state } = execution
  const { spec } = call
  switch (spec.kind) {
    case 'WAIT':
      return holds(call.id, spec.condition) ? { value: { encoded: undefined, value: true } } : undefined
    case 'EVENT': {
      const response = state.find(spec.response)
      if (!response) return undefined
      state.take(spec.response, response.number)
      return { value: { encoded: undefined, value: response.data }, detail: { response: response.number } }
    }
    case 'COMMAND': {
      const id = remoteId(execution, call)
      const response = state.find('@command', (data) => (data as CommandReply).commandId === id)
      if (!response) return undefined
      state.take('@command', response.number)
      return commandEnd(execution, call, response.data as CommandReply, response.number)
    }
    case 'CHILD': {
      // Not by the name of the call: an earlier generation may have used it too.
      const id = remoteId(execution, call)
      const response = state.find('@child', (data) => (data as ChildEnd).id === id)
      if (!response) return undefined
      state.take('@child', response.number)
      return childEnd(execution, call, response.data as ChildEnd, response.number)
    }
    case 'SLEEP':
      return undefined
  }
}

function holds(wait: string, condition: () => unknown): boolean {
  return fromUserCode(
    () => Boolean(settled(condition(), `the condition of the wait \`${wait}\``)),
    (problem, cause) => new HoldfastError('HF_CONDITION_THREW', { wait, problem }, { cause }),
  )
}

function commandEnd(execution: Execution, call: Call, reply: CommandReply, response: number): WaitResult {
  if (reply.outcome === 'SUCCESS') {
    const value = execution.parts.codec.decode({ json: reply.result ?? null, notes: reply.notes ?? null })
    return { value: encodeResult(execution, call, value), detail: { response } }
  }
  const error = new BusinessError(reply.errorMessage ?? `the command was ${reply.outcome.toLowerCase()}`, {
    code: reply.errorCode ?? `COMMAND_${reply.outcome}`,
  })
  // A command that was cancelled after it had been called may have had its effect.
  const outcome = reply.effect === 'unknown' ? 'unknown' : 'refused'
  return { failed: toRecorded(execution.classify(error)), outcome, detail: { response } }
}

function childEnd(execution: Execution, call: Call, end: ChildEnd, response: number): WaitResult {
  if (end.status === 'COMPLETED') {
    const value = execution.parts.codec.decode({ json: end.result ?? null, notes: end.resultNotes ?? null })
    return { value: encodeResult(execution, call, value), detail: { response } }
  }
  const why = end.error ? `: ${end.error.message}` : ''
  const error = new BusinessError(`the child ${end.id} ended ${end.status}${why}`, { code: `CHILD_${end.status}` })
  // A child that has not compensated leaves that to its parent.
  const outcome = end.status === 'COMPENSATED' || end.undone ? 'refused' : 'unknown'
  return { failed: toRecorded(execution.classify(error)), outcome, detail: { response } }
}

/** The id of what a call starts elsewhere: the same however often the process is replayed. */
export function remoteId({ item }: Execution, call: Call): string {
  return derivedId('process call', item.id, item.generation, call.spec.kind, call.name, call.occurrence)
}

async function record(execution: Execution, call: WaitingCall, result: WaitResult): Promise<void> {
  const { kind } = call.spec
  const thrown = 'failed' in result && 'onFailure' in call.spec && call.spec.onFailure === 'throw'
  const nothing = 'value' in result && result.value.encoded === undefined && kind !== 'WAIT' && kind !== 'EVENT'
  const event = execution.journal.append({
    kind,
    name: call.name,
    occurrence: call.occurrence,
    status: 'failed' in result ? 'FAILED' : 'COMPLETED',
    detail: {
      ...result.detail,
      ...('failed' in result ? { error: result.failed, thrown, outcome: result.outcome } : {}),
      ...(nothing ? { nothing } : {}),
    },
    ...('value' in result && result.value.encoded ? { encoded: result.value.encoded } : {}),
  })
  call.lastSeq = event.seq
  if ('value' in result) return execution.complete(call, result.value.value, event.at)
  call.underWay = false
  call.attempted(result.outcome)
  if (thrown) await execution.settle(call, { failed: result.failed }, event.at)
  else execution.failCall(call, { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: result.failed })
}

/** The time of a timeout is fixed when the wait is first reached, and stands in the record. */
function arm(execution: Execution, call: WaitingCall): void {
  const { spec } = call
  const now = execution.now()
  const timeoutMs = spec.kind === 'SLEEP' ? spec.forMs : timeoutOf(execution, spec)
  const until = spec.kind === 'SLEEP' ? spec.until : undefined
  const nextAt = until ?? (timeoutMs === undefined ? undefined : Math.floor(now + timeoutMs))
  const event = execution.journal.append({
    kind: spec.kind,
    name: call.name,
    occurrence: call.occurrence,
    status: 'STARTED',
    ...(nextAt === undefined ? {} : { nextAt }),
    detail: {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...('begin' in spec ? { startedId: remoteId(execution, call) } : {}),
    },
  })
  call.armed = true
  call.lastSeq = event.seq
  call.nextAt = nextAt
}

function timeoutOf({ parts }: Execution, spec: Exclude<WaitingSpec, { kind: 'SLEEP' }>): number | undefined {
  // A command or a child has no time limit, unless the call gives one.
  if ('begin' in spec) return spec.timeoutMs
  return spec.timeoutMs ?? parts.settings.waitTimeoutMs ?? parts.definition.waitTimeoutMs
}

async function timeOut(execution: Execution, call: WaitingCall): Promise<void> {
  const { spec } = call
  const slept = spec.kind === 'SLEEP'
  const returns = slept || spec.onTimeout === 'return'
  const error = slept ? undefined : timeoutError(execution, call)
  const event = execution.journal.append({
    kind: spec.kind,
    name: call.name,
    occurrence: call.occurrence,
    status: returns ? 'COMPLETED' : 'FAILED',
    detail: { ...(slept ? {} : { timedOut: true }), ...(returns || !error ? {} : { error }) },
  })
  call.lastSeq = event.seq
  if (returns) {
    await execution.settle(call, { value: valueAfterTimeout(spec) }, event.at)
    return
  }
  call.progress = 'failed'
  if (error) execution.failCall(call, decideTimeout(spec.onTimeout, error))
}

/** What a wait returns that timed out: `wait` false, `event` and `sleep` nothing. */
export const valueAfterTimeout = (spec: WaitingSpec): unknown => (spec.kind === 'WAIT' ? false : undefined)

export function decideTimeout(
  onTimeout: 'tsq' | 'compensate' | 'fail' | 'return',
  error: RecordedFailure,
): FinalDecision {
  if (onTimeout === 'compensate') return { to: 'UNWIND', end: 'COMPENSATED', reason: 'TIMEOUT', error }
  if (onTimeout === 'fail') return { to: 'END', end: 'FAILED', error }
  return trouble('WAIT_TIMEOUT', error)
}

function timeoutError(execution: Execution, call: WaitingCall): RecordedFailure {
  const error = new BusinessError(`the wait \`${call.id}\` has timed out`, { code: 'WAIT_TIMEOUT' })
  return toRecorded(execution.classify(error))
}
