import { isTransient } from '../../kernel/database/transient.js'
import { HoldfastError } from '../../kernel/errors.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { derivedId } from '../../kernel/ids/derived-id.js'
import type { RecordDetail, RecordedFailure } from '../history.js'
import { seal } from './attempt.js'
import type { Sealed } from './attempted.js'
import type { RemoteSpec, WaitingSpec } from './call-spec.js'
import type { Call } from './calls.js'
import { toRecorded, trouble, type Verdict } from './decisions.js'
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
type Met =
  | { readonly value: Sealed; readonly detail?: RecordDetail }
  | { readonly failed: RecordedFailure; readonly outcome: 'refused' | 'unknown'; readonly detail?: RecordDetail }

const isWaiting = (call: Call): call is WaitingCall =>
  'condition' in call.spec || call.spec.kind === 'EVENT' || call.spec.kind === 'SLEEP' || 'begin' in call.spec

/**
 * Looks whether something that the process waits for has come (P-03, P-09). True when user code has gone on, or the
 * process has come to a verdict.
 */
export async function lookAtWaits(execution: Execution): Promise<boolean> {
  const open = execution.calls.with('waiting').filter(isWaiting)
  if (open.length === 0) return false
  if (await meetFirst(execution, open)) return true
  for (const call of open) if (!call.armed) arm(execution, call)
  const late = open.find((call) => call.nextAt !== undefined && call.nextAt <= execution.now())
  if (!late) return false
  await timeOut(execution, late)
  return true
}

/**
 * Puts commands and children that have begun on record. A process that turns to undoing, or to a person, does not look at its
 * waits any more, and the worker that goes on with it would know nothing of them (K-19).
 */
export function recordRemotes(execution: Execution): void {
  for (const call of remotesOf(execution)) if (call.underWay && !call.armed) arm(execution, call)
}

/**
 * Lets commands and children end before anything is undone (K-19): a payment must not be made after its refund, and a child
 * undoes itself before its parent does. Returns those that have not ended yet.
 */
export async function meetRemotes(execution: Execution): Promise<readonly RemoteCall[]> {
  for (;;) {
    const open = remotesOf(execution).filter(({ underWay }) => underWay)
    if (open.length === 0 || !(await meetFirst(execution, open))) return open
  }
}

/**
 * Commands and children that may have been started by an execution that was interrupted: made certain of, so that they can be
 * called off and waited for, and so that a worker that merely stood still cannot start them after that.
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
export async function callOffRemotes(
  execution: Execution,
  open: readonly RemoteCall[],
  compensate: boolean,
): Promise<void> {
  for (const call of open) {
    throwIfLost(execution)
    await call.spec.callOff(remoteId(execution, call), compensate)
  }
}

export function remotesOf(execution: Execution): RemoteCall[] {
  return [...execution.calls.open()].filter((call): call is RemoteCall => 'begin' in call.spec)
}

/**
 * Lets the first of these calls end that has met what it waits for. Responses enter the state one at a time, and after
 * each all are asked in the order of the calls, so that no condition misses a state between two responses.
 */
async function meetFirst(execution: Execution, open: readonly WaitingCall[]): Promise<boolean> {
  for (;;) {
    for (const call of open) {
      const met = meet(execution, call)
      if (!met) continue
      await record(execution, call, met)
      return true
    }
    if (!execution.state.applyNext()) return false
  }
}

function meet(execution: Execution, call: WaitingCall): Met | undefined {
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

function commandEnd(execution: Execution, call: Call, reply: CommandReply, response: number): Met {
  if (reply.outcome === 'SUCCESS') {
    const value = execution.parts.codec.decode({ json: reply.result ?? null, notes: reply.notes ?? null })
    return { value: seal(execution, call, value), detail: { response } }
  }
  const error = new BusinessError(reply.errorMessage ?? `the command was ${reply.outcome.toLowerCase()}`, {
    code: reply.errorCode ?? `COMMAND_${reply.outcome}`,
  })
  // A command that was cancelled after it had been called may have had its effect.
  const outcome = reply.effect === 'unknown' ? 'unknown' : 'refused'
  return { failed: toRecorded(execution.classify(error)), outcome, detail: { response } }
}

function childEnd(execution: Execution, call: Call, end: ChildEnd, response: number): Met {
  if (end.status === 'COMPLETED') {
    const value = execution.parts.codec.decode({ json: end.result ?? null, notes: end.resultNotes ?? null })
    return { value: seal(execution, call, value), detail: { response } }
  }
  const why = end.error ? `: ${end.error.message}` : ''
  const error = new BusinessError(`the child ${end.id} ended ${end.status}${why}`, { code: `CHILD_${end.status}` })
  // One that has not undone what it did leaves it to its parent.
  const outcome = end.status === 'COMPENSATED' || end.undone ? 'refused' : 'unknown'
  return { failed: toRecorded(execution.classify(error)), outcome, detail: { response } }
}

/** The id of what a call starts elsewhere: the same however often the process is replayed. */
export function remoteId({ item }: Execution, call: Call): string {
  return derivedId('process call', item.id, item.generation, call.spec.kind, call.name, call.occurrence)
}

async function record(execution: Execution, call: WaitingCall, met: Met): Promise<void> {
  const { kind } = call.spec
  const thrown = 'failed' in met && 'onFailure' in call.spec && call.spec.onFailure === 'throw'
  const nothing = 'value' in met && met.value.encoded === undefined && kind !== 'WAIT' && kind !== 'EVENT'
  const event = execution.journal.append({
    kind,
    name: call.name,
    occurrence: call.occurrence,
    status: 'failed' in met ? 'FAILED' : 'COMPLETED',
    detail: {
      ...met.detail,
      ...('failed' in met ? { error: met.failed, thrown, outcome: met.outcome } : {}),
      ...(nothing ? { nothing } : {}),
    },
    ...('value' in met && met.value.encoded ? { encoded: met.value.encoded } : {}),
  })
  call.lastSeq = event.seq
  if ('value' in met) return execution.complete(call, met.value.value, event.at)
  call.underWay = false
  call.attempted(met.outcome)
  if (thrown) await execution.settle(call, { failed: met.failed }, event.at)
  else execution.failCall(call, { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: met.failed })
}

/** The time of a timeout is fixed when the wait is first reached, and stands in the record (P-03). */
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
  // A command or a child takes the time it takes, unless somebody says otherwise.
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
  if (error) execution.failCall(call, timeoutVerdict(spec.onTimeout, error))
}

/** What a wait answers whose time is over: `wait` false, `event` and `sleep` nothing. */
export const valueAfterTimeout = (spec: WaitingSpec): unknown => (spec.kind === 'WAIT' ? false : undefined)

export function timeoutVerdict(onTimeout: 'tsq' | 'compensate' | 'fail' | 'return', error: RecordedFailure): Verdict {
  if (onTimeout === 'compensate') return { to: 'UNWIND', end: 'COMPENSATED', reason: 'TIMEOUT', error }
  if (onTimeout === 'fail') return { to: 'END', end: 'FAILED', error }
  return trouble('WAIT_TIMEOUT', error)
}

function timeoutError(execution: Execution, call: WaitingCall): RecordedFailure {
  const error = new BusinessError(`the wait \`${call.id}\` has timed out`, { code: 'WAIT_TIMEOUT' })
  return toRecorded(execution.classify(error))
}
