// Executes one claimed process, stage by stage: check the entry, replay the record, drive the code, then suspend,
// compensate or end. The work loop and the immediate start call `runProcess`; the mechanics of each stage are in
// `execution/`. Every write is fenced by the epoch of the claim. A process must be suspended in exactly one place
// (`write`), and never while one of its calls still runs.

import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { splitName } from '../kernel/ids/name.js'
import { callLimited, codeOf, type Lease } from '../kernel/model/index.js'
import { checkEntry, suspendWithoutReplay } from './entry-check.js'
import type { Call } from './execution/calls.js'
import { type FinalDecision, toRecorded, trouble } from './execution/decisions.js'
import { drive } from './execution/drive.js'
import { Execution } from './execution/execution.js'
import { isLostLease, throwIfLost } from './execution/lost.js'
import { Mismatch, ReplayFailed, replaying } from './execution/mismatch.js'
import type { DriveResult } from './execution/next.js'
import type { ExecutionParts } from './execution/parts.js'
import { replay } from './execution/replay.js'
import {
  checkState,
  suspendBeforeCompensating,
  suspendCompensating,
  suspendContinuing,
  suspendEnded,
  suspendInTrouble,
  suspendMismatched,
  suspendStopping,
  suspendWaiting,
} from './execution/suspend.js'
import { beginUnwinding, callsToUndo, unwind } from './execution/unwinding.js'
import { contextFor } from './execution/user-context.js'
import { cancelRemotes, completeRemotes, underWay, withholdRemotes } from './execution/waiting.js'
import type { RecordedFailure } from './history.js'
import type { LiveExecutions } from './live.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import { withAllResponses } from './queries/read-record.js'
import type { Suspension } from './queries/write-processes.js'
import { processOf } from './refused.js'

/** A process whose worker died so often while it ran alone and recorded nothing kills its workers. */
const CRASHES = 5
const LONGEST_MISMATCH_DELAY = 5_000

/**
 * Executes a claimed process: replays its record, drives its code, suspends or ends it. Returns how it was suspended; undefined when the
 * lease was lost and nothing was written.
 */
export async function runProcess(
  item: ClaimedProcess,
  lease: Lease<ClaimedProcess>,
  parts: ExecutionParts,
  live: LiveExecutions,
): Promise<Suspension | undefined> {
  try {
    if (isFirstClaim(item)) parts.reports.started({ model: 'processes', ...splitName(item.type) })
    const entry = await checkEntry(item, parts)
    return 'suspension' in entry
      ? entry.suspension
      : await execute(await withAllResponses(parts.db, entry.item), lease, parts, live)
  } catch (error) {
    if (!isLostLease(error)) throw error
    parts.logger.warn({ id: item.id, type: item.type, epoch: item.epoch }, 'lease lost: the execution changes nothing')
    return undefined
  }
}

const isFirstClaim = ({ epoch, restedEpoch, generation, status, history }: ClaimedProcess): boolean =>
  generation === 1 && status === 'PENDING' && history.length === 0 && restedEpoch === epoch - 1

async function execute(
  item: ClaimedProcess,
  lease: Lease<ClaimedProcess>,
  parts: ExecutionParts,
  live: LiveExecutions,
): Promise<Suspension> {
  const execution = open(item, lease, parts)
  if ('error' in execution) return suspendWithoutReplay(item, parts, execution.error, item.restedEpoch + 2)
  const leave = live.join(execution)
  try {
    return await runToSuspension(execution)
  } finally {
    execution.released = true
    // The lease of an interrupted execution ends with its code, which may ignore its signal.
    while (lease.interrupted && execution.running > 0) await execution.wakeUp.wait()
    leave()
  }
}

/** The execution, or why what is stored of the process cannot be read: that is no different for the next worker. */
function open(
  item: ClaimedProcess,
  lease: Lease<ClaimedProcess>,
  parts: ExecutionParts,
): Execution | { readonly error: RecordedFailure } {
  try {
    return new Execution(item, lease, parts)
  } catch (error) {
    return { error: undecodable(error) }
  }
}

function undecodable(error: unknown): RecordedFailure {
  return trouble('NOT_DECODABLE', toRecorded(classifyFailure(error, { unknown: 'permanent' }))).error
}

async function runToSuspension(execution: Execution): Promise<Suspension> {
  const crashed = crashLoop(execution)
  if (crashed) return giveUp(execution, crashed)
  try {
    await execution.begin(contextFor(execution))
    await replay(execution)
    if (wasInterrupted(execution)) noteInterrupted(execution)
    for (;;) {
      const suspended = await trySuspend(execution, await drive(execution))
      if (suspended) return suspended
    }
  } catch (error) {
    if (isRefused(error)) return suspendRefused(execution, error)
    if (!(error instanceof Mismatch || error instanceof ReplayFailed)) throw error
    // Calls that still run are not recorded any more; no worker may begin them again meanwhile.
    while (execution.running > 0) {
      throwIfLost(execution)
      await execution.wakeUp.wait()
    }
    if (error instanceof Mismatch) return mismatched(execution, error)
    return giveUp(execution, permanent(execution, error.cause))
  }
}

/** The database refuses the record from any worker: a value that it cannot hold, a limit that is exceeded. */
const isRefused = (error: unknown): error is Error =>
  error instanceof Error && 'severity' in error && /^(22|23|54)/.test(codeOf(error))

/**
 * Into troubleshooting with the database's own words, after what runs has ended. What was called and could not be recorded counts as
 * interrupted: an operator's retry finds its outcome unknown.
 */
async function suspendRefused(execution: Execution, error: Error): Promise<Suspension> {
  const { item, parts, lease } = execution
  while (execution.running > 0 && !lease.aborted) await execution.wakeUp.wait()
  const refusal = new PermanentError(`PostgreSQL refused the record: ${error.message}`, {
    code: 'NOT_STORABLE',
    cause: error,
  })
  const failure = toRecorded(classifyFailure(refusal, { unknown: 'permanent' }))
  return suspendWithoutReplay(item, parts, failure, item.restedEpoch + 1)
}

/** Suspends if nothing has come in meanwhile; otherwise the execution has received it and continues. */
async function trySuspend(execution: Execution, driven: DriveResult): Promise<Suspension | undefined> {
  if (driven.kind === 'decided') return tryFinish(execution, driven.finalDecision)
  let state: Suspension['state']
  if (driven.kind === 'waiting' || driven.kind === 'stopping') {
    state = checkState(execution)
    if (execution.state.finalDecision || (driven.kind === 'waiting' && isBehind(execution))) return undefined
  }
  let wanted: Suspension
  try {
    wanted = suspensionFor(execution, driven, state)
  } catch (error) {
    execution.fail(error)
    return undefined
  }
  const suspended = await write(execution, wanted)
  if (suspended && driven.kind === 'ended') await callHook(execution, 'completed', { result: driven.value })
  return suspended
}

function suspensionFor(
  execution: Execution,
  driven: Exclude<DriveResult, { kind: 'decided' }>,
  state: Suspension['state'],
): Suspension {
  switch (driven.kind) {
    case 'ended':
      return suspendEnded(execution, 'COMPLETED', { value: driven.value })
    case 'continue':
      checkContinuable(execution, driven.keepEffects)
      return suspendContinuing(execution, driven.state)
    case 'stopping':
      return suspendStopping(execution, state)
    case 'waiting':
      return suspendWaiting(execution, state)
  }
}

/** A fresh history knows nothing of the calls in the one before: none of them may still matter. */
function checkContinuable(execution: Execution, keepEffects: boolean): void {
  const named = (found: readonly Call[]) => found.map((call) => `\`${call.id}\``).join(', ')
  const open = [...execution.state.calls.open()].filter(
    ({ spec, progress }) => EFFECTS.has(spec.kind) && progress !== 'failed',
  )
  const process = processOf(execution.parts.definition.name, execution.item.id)
  if (open.length > 0) throw new HoldfastError('HF_CONTINUE_WITH_OPEN_CALLS', { ...process, calls: named(open) })
  const toUndo = keepEffects ? [] : callsToUndo(execution)
  if (toUndo.length > 0) throw new HoldfastError('HF_CONTINUE_WITH_COMPENSATIONS', { ...process, calls: named(toUndo) })
}

async function tryFinish(execution: Execution, decision: FinalDecision): Promise<Suspension | undefined> {
  switch (decision.to) {
    case 'TSQ':
      return write(execution, suspendInTrouble(execution, decision.error))
    case 'END':
      // Nothing is compensated; commands and children that have not begun do not begin any more.
      await withholdRemotes(execution)
      await cancelRemotes(execution, underWay(execution), false)
      return endWith(execution, decision, hasDoneNothing(execution))
    case 'UNWIND':
      return undo(execution, decision)
  }
}

async function undo(
  execution: Execution,
  decision: Extract<FinalDecision, { to: 'UNWIND' }>,
): Promise<Suspension | undefined> {
  if (!execution.state.unwinding) {
    beginUnwinding(execution, decision)
    await execution.journal.flush()
  }
  // Each time: killed between the record and this, they would continue for ever.
  await withholdRemotes(execution)
  const open = await replaying(() => completeRemotes(execution))
  if (open.length > 0) {
    await cancelRemotes(execution, open, true)
    return isBehind(execution) ? undefined : write(execution, suspendBeforeCompensating(execution, open))
  }
  const unwound = await unwind(execution)
  if ('dueAt' in unwound) return write(execution, suspendCompensating(execution, unwound.dueAt))
  if ('failed' in unwound) return write(execution, suspendInTrouble(execution, unwound.failed))
  return endWith(execution, decision, true)
}

/**
 * Something was received since the execution checked its waits. A suspension that counts it as received would never be woken
 * for it, so the waits are checked once more.
 */
const isBehind = ({ state }: Execution): boolean => {
  const { data, calls, cancel, finalDecision } = state
  if (cancel !== null && (!finalDecision || cancel === 'PLAIN')) return true
  const readsResponses = finalDecision !== undefined || calls.with('waiting').length > 0
  return readsResponses && data.received > data.seen
}

async function endWith(
  execution: Execution,
  decision: Extract<FinalDecision, { to: 'UNWIND' | 'END' }>,
  undone: boolean,
): Promise<Suspension | undefined> {
  const suspended = await write(execution, suspendEnded(execution, decision.end, { error: decision.error, undone }))
  if (suspended) await callHook(execution, decision.end === 'CANCELLED' ? 'cancelled' : 'failed', errorOf(decision))
  return suspended
}

/** Reads of the outside world are not effects. */
const EFFECTS: ReadonlySet<string> = new Set(['STEP', 'TRANSACTION', 'COMMAND', 'CHILD'])

/** What earlier generations did is not known here. */
const hasDoneNothing = ({ state, item }: Execution): boolean =>
  item.generation === 1 &&
  [...state.calls.all()].every(
    ({ spec, outcome }) => !EFFECTS.has(spec.kind) || outcome === undefined || outcome === 'refused',
  )

async function write(execution: Execution, wanted: Suspension): Promise<Suspension | undefined> {
  throwIfLost(execution)
  const incoming = await execution.journal.suspend(wanted)
  if (!incoming) return wanted
  execution.receive(incoming)
  return undefined
}

/** Left for other workers, whose code may fit, for a grace time. */
async function mismatched(execution: Execution, { message }: Mismatch): Promise<Suspension> {
  const { item, parts } = execution
  const error = permanent(
    execution,
    new PermanentError(`the code of ${item.type} does not fit its history: ${message}`, { code: 'NON_DETERMINISM' }),
  )
  const grace = parts.definition.mismatchGraceMs
  const since = item.mismatchSince ?? execution.now()
  if (item.cancel === 'PLAIN' || execution.now() - since >= grace) return giveUp(execution, error)
  parts.logger.warn({ id: item.id, type: item.type, problem: message }, 'released: another version of the code may fit')
  return suspendUnreplayed(execution, async () =>
    suspendMismatched(execution, error, Math.min(grace, LONGEST_MISMATCH_DELAY)),
  )
}

/**
 * Goes to troubleshooting without a completed replay: the state here cannot be trusted. A cancellation without compensation
 * needs no replay.
 */
async function giveUp(execution: Execution, error: RecordedFailure): Promise<Suspension> {
  return suspendUnreplayed(execution, async () => {
    if (execution.state.cancel !== 'PLAIN') return suspendInTrouble(execution, error)
    await execution.parts.remotes.cancelChildren(execution.item.id, false)
    return suspendEnded(execution, 'CANCELLED', {})
  })
}

/** A claim after a suspension in order sees the epoch of the suspension as its last but one; after an interruption it sees less. */
const wasInterrupted = ({ item }: Execution): boolean => item.epoch - 1 > item.restedEpoch

/**
 * The execution before this one was not suspended in order: its worker died, or lost its lease. It may have begun exactly the calls
 * that its record leads to and whose end it does not have, because nothing is called before what led to it is committed. That goes
 * on record with the next write, before anything else happens with them. A transaction commits with its record, or not at
 * all; an at-most-once step has `STARTED` before it; and a process that is being compensated begins no calls.
 */
function noteInterrupted(execution: Execution): void {
  const { unwinding, calls } = execution.state
  if (unwinding) return
  for (const call of calls.open()) {
    const { spec, progress, nextAt } = call
    const due = progress === 'new' || (progress === 'retrying' && (nextAt ?? 0) <= execution.now())
    if (!due || !INTERRUPTIBLE.has(spec.kind) || call.outcome === 'unknown') continue
    if ('atMostOnce' in spec && spec.atMostOnce) continue
    execution.recordCall(call, { status: 'STARTED', attempt: call.attempts + 1, detail: { recovered: true } })
  }
}

const INTERRUPTIBLE: ReadonlySet<string> = new Set(['STEP', 'SIDE_EFFECT', 'COMMAND', 'CHILD'])

/**
 * Suspends in any case: receives what has come in, and makes the suspension again. The next claim sees what this one saw; and where
 * calls were begun here and not recorded, it sees an interruption.
 */
async function suspendUnreplayed(execution: Execution, make: () => Promise<Suspension>): Promise<Suspension> {
  const restedEpoch = execution.item.restedEpoch + (execution.hasBegun ? 1 : 2)
  for (;;) {
    const suspended = await write(execution, { ...(await make()), state: undefined, restedEpoch })
    if (suspended) return suspended
  }
}

function permanent(execution: Execution, error: unknown): RecordedFailure {
  if (error instanceof HoldfastError && error.code === 'HF_NOT_DECODABLE') return undecodable(error)
  const recorded = toRecorded(execution.classify(error))
  return trouble(error instanceof PermanentError ? error.code : 'PERMANENT_FAILURE', recorded).error
}

function crashLoop(execution: Execution): RecordedFailure | undefined {
  const times = execution.item.lost?.alone ?? 0
  if (times < CRASHES) return undefined
  const problem = `its worker died ${times} times in a row while it ran alone and recorded nothing: it ends its workers`
  return permanent(execution, new PermanentError(problem, { code: 'CRASH_LOOP' }))
}

const errorOf = ({ error }: Extract<FinalDecision, { to: 'UNWIND' | 'END' }>) =>
  error ? { error: { code: error.code, message: error.message } } : {}

/**
 * Called once the end is committed, so that no other end can follow, and at most once: after a kill in between it is not called. A hook
 * that does not return is left to itself when its time is over.
 */
async function callHook(
  execution: Execution,
  which: 'completed' | 'failed' | 'cancelled',
  end: { readonly result?: unknown; readonly error?: { readonly code: string; readonly message: string } },
): Promise<void> {
  const { hooks, hookTimeoutMs } = execution.parts.definition
  const hook = hooks[which]
  if (!hook) return
  const { id, key } = execution.item
  try {
    await callLimited({ limitMs: hookTimeoutMs, graceMs: 0, around: () => [] }, () =>
      hook(execution.state.data.shown, { id, key, ...end }),
    )
  } catch (error) {
    execution.parts.logger.error({ err: error, id, hook: which }, 'a hook failed; the process has ended anyway')
  }
}
