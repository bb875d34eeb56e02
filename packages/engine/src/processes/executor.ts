import { callLimited } from '../kernel/calls/limited.js'
import { codeOf } from '../kernel/database/transient.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { splitName } from '../kernel/reports/reports.js'
import type { Lease } from '../kernel/work/leases.js'
import { checkEntry, restApart } from './entry-check.js'
import { isLostLease } from './execution/attempt.js'
import type { Call } from './execution/calls.js'
import { toRecorded, trouble, type Verdict } from './execution/decisions.js'
import { drive, type Standstill } from './execution/drive.js'
import { Execution } from './execution/execution.js'
import { throwIfLost } from './execution/lost.js'
import { following, Mismatch, Unfollowable } from './execution/mismatch.js'
import type { ExecutionParts } from './execution/parts.js'
import { replay } from './execution/replay.js'
import {
  checkState,
  failureOf,
  restBeforeUndoing,
  restCompensating,
  restContinuing,
  restEnded,
  restInTrouble,
  restMismatched,
  restStopping,
  restWaiting,
} from './execution/rest.js'
import { beginUnwinding, callsToUndo, unwind } from './execution/unwinding.js'
import { contextFor } from './execution/user-context.js'
import { callOffRemotes, meetRemotes, remotesOf, withholdRemotes } from './execution/waiting.js'
import type { RecordedFailure } from './history.js'
import type { LiveExecutions } from './live.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import type { Rest } from './queries/write-processes.js'

/** A process whose worker died so often while it ran alone and recorded nothing kills its workers (P-13, K-26). */
const CRASHES = 5
const LONGEST_GIVE_BACK = 5_000

/**
 * A claimed process's way: replay its record, drive its code, rest. Answers how it came to rest; undefined when the
 * lease was lost and nothing was written.
 */
export async function runProcess(
  item: ClaimedProcess,
  lease: Lease<ClaimedProcess>,
  parts: ExecutionParts,
  live: LiveExecutions,
): Promise<Rest | undefined> {
  try {
    if (isFirstClaim(item)) parts.reports.started({ model: 'processes', ...splitName(item.type) })
    const entry = await checkEntry(item, parts)
    return 'rest' in entry ? entry.rest : await execute(entry.item, lease, parts, live)
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
): Promise<Rest> {
  const execution = open(item, lease, parts)
  if ('error' in execution) return restApart(item, parts, execution.error, item.restedEpoch + 2)
  const leave = live.join(execution)
  try {
    return await toRest(execution)
  } finally {
    execution.released = true
    // The lease of an interrupted execution ends with its code, which may not heed its signal.
    while (lease.interrupted && execution.running > 0) await execution.stirred.wait()
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

async function toRest(execution: Execution): Promise<Rest> {
  const crashed = crashLoop(execution)
  if (crashed) return giveUp(execution, crashed)
  try {
    await execution.begin(contextFor(execution))
    await following(() => replay(execution))
    if (wasInterrupted(execution)) noteInterrupted(execution)
    for (;;) {
      const rested = await attemptRest(execution, await drive(execution))
      if (rested) return rested
    }
  } catch (error) {
    if (isRefused(error)) return restRefused(execution, error)
    if (!(error instanceof Mismatch || error instanceof Unfollowable)) throw error
    // What still runs is not recorded any more; nobody may begin it again beside it.
    while (execution.running > 0) {
      throwIfLost(execution)
      await execution.stirred.wait()
    }
    if (error instanceof Mismatch) return mismatched(execution, error)
    return giveUp(execution, permanent(execution, error.cause))
  }
}

/** The database refuses what was to be written, whoever writes it: a value that it cannot hold, a limit that is exceeded. */
const isRefused = (error: unknown): error is Error =>
  error instanceof Error && 'severity' in error && /^(22|23|54)/.test(codeOf(error))

/**
 * Into troubleshooting with the database's own words, after what runs has ended. What was called and could not be recorded counts as
 * interrupted: an operator's retry finds its outcome unknown (K-19).
 */
async function restRefused(execution: Execution, error: Error): Promise<Rest> {
  const { item, parts, lease } = execution
  while (execution.running > 0 && !lease.aborted) await execution.stirred.wait()
  const refusal = new PermanentError(`PostgreSQL refused the record: ${error.message}`, {
    code: 'NOT_STORABLE',
    cause: error,
  })
  const failure = toRecorded(classifyFailure(refusal, { unknown: 'permanent' }))
  return restApart(item, parts, failure, item.restedEpoch + 1)
}

/** Rests if nothing has come meanwhile; otherwise the execution has heard of it and goes on. */
async function attemptRest(execution: Execution, standstill: Standstill): Promise<Rest | undefined> {
  if (standstill.kind === 'verdict') return attemptVerdict(execution, standstill.verdict)
  if (standstill.kind === 'waiting' || standstill.kind === 'stopping') {
    checkState(execution)
    if (execution.verdict || (standstill.kind === 'waiting' && isBehind(execution))) return undefined
  }
  let wanted: Rest
  try {
    wanted = await restFor(execution, standstill)
  } catch (error) {
    execution.verdict = failureOf(execution, error)
    return undefined
  }
  const rested = await write(execution, wanted)
  if (rested && standstill.kind === 'ended') await tellHook(execution, 'completed', { result: standstill.value })
  return rested
}

async function restFor(execution: Execution, standstill: Exclude<Standstill, { kind: 'verdict' }>): Promise<Rest> {
  switch (standstill.kind) {
    case 'ended':
      return restEnded(execution, 'COMPLETED', { value: standstill.value })
    case 'continue':
      checkContinuable(execution, standstill.keepEffects)
      return restContinuing(execution, standstill.state)
    case 'stopping':
      return restStopping(execution)
    case 'waiting':
      return restWaiting(execution)
  }
}

/** A fresh history knows nothing of the calls in the one before: none of them may still matter (K-19, P-24). */
function checkContinuable(execution: Execution, keepEffects: boolean): void {
  const { item, calls } = execution
  const named = (found: readonly Call[]) => found.map((call) => `\`${call.id}\``).join(', ')
  const open = [...calls.open()].filter(({ spec, progress }) => EFFECTS.has(spec.kind) && progress !== 'failed')
  if (open.length > 0) throw new HoldfastError('HF_CONTINUE_WITH_OPEN_CALLS', { id: item.id, calls: named(open) })
  const toUndo = keepEffects ? [] : callsToUndo(execution)
  if (toUndo.length > 0)
    throw new HoldfastError('HF_CONTINUE_WITH_COMPENSATIONS', { id: item.id, calls: named(toUndo) })
}

async function attemptVerdict(execution: Execution, verdict: Verdict): Promise<Rest | undefined> {
  switch (verdict.to) {
    case 'TSQ':
      return write(execution, restInTrouble(execution, verdict.error))
    case 'END':
      // Nothing is undone; what has not begun elsewhere does not begin any more.
      await withholdRemotes(execution)
      await callOffRemotes(execution, underWay(execution), false)
      return endWith(execution, verdict, hasDoneNothing(execution))
    case 'UNWIND':
      return undo(execution, verdict)
  }
}

async function undo(execution: Execution, verdict: Extract<Verdict, { to: 'UNWIND' }>): Promise<Rest | undefined> {
  if (!execution.unwinding) {
    beginUnwinding(execution, verdict)
    await execution.journal.flush()
  }
  // Each time: killed between the record and this, they would go on for ever.
  await withholdRemotes(execution)
  const open = await following(() => meetRemotes(execution))
  if (open.length > 0) {
    await callOffRemotes(execution, open, true)
    return isBehind(execution) ? undefined : write(execution, restBeforeUndoing(execution, open))
  }
  const unwound = await unwind(execution)
  if ('dueAt' in unwound) return write(execution, restCompensating(execution, unwound.dueAt))
  if ('failed' in unwound) return write(execution, restInTrouble(execution, unwound.failed))
  return endWith(execution, verdict, true)
}

/**
 * Something has been heard since the execution looked at what it waits for. A rest that counts it as heard would never be woken
 * for it, so it looks once more.
 */
const isBehind = ({ state, calls, cancel, verdict }: Execution): boolean => {
  if (cancel !== null && (!verdict || cancel === 'PLAIN')) return true
  const looksAtResponses = verdict !== undefined || calls.with('waiting').length > 0
  return looksAtResponses && state.heard > state.seen
}

async function endWith(
  execution: Execution,
  verdict: Extract<Verdict, { to: 'UNWIND' | 'END' }>,
  undone: boolean,
): Promise<Rest | undefined> {
  const rested = await write(execution, restEnded(execution, verdict.end, { error: verdict.error, undone }))
  if (rested) await tellHook(execution, verdict.end === 'CANCELLED' ? 'cancelled' : 'failed', errorOf(verdict))
  return rested
}

const underWay = (execution: Execution) => remotesOf(execution).filter((call) => call.underWay)

/** Reads of the outside world are not effects. */
const EFFECTS: ReadonlySet<string> = new Set(['STEP', 'TRANSACTION', 'COMMAND', 'CHILD'])

/** What earlier generations did is not known here. */
const hasDoneNothing = ({ calls, item }: Execution): boolean =>
  item.generation === 1 &&
  [...calls.all()].every(
    ({ spec, outcome }) => !EFFECTS.has(spec.kind) || outcome === undefined || outcome === 'refused',
  )

async function write(execution: Execution, wanted: Rest): Promise<Rest | undefined> {
  throwIfLost(execution)
  const news = await execution.journal.rest(wanted)
  if (!news) return wanted
  execution.hear(news)
  return undefined
}

/** Left for other workers, whose code may fit, for a grace time (P-18). */
async function mismatched(execution: Execution, { message }: Mismatch): Promise<Rest> {
  const { item, parts } = execution
  const error = permanent(
    execution,
    new PermanentError(`the code of ${item.type} does not fit its history: ${message}`, { code: 'NON_DETERMINISM' }),
  )
  const grace = parts.definition.mismatchGraceMs
  const since = item.mismatchSince ?? execution.now()
  if (item.cancel === 'PLAIN' || execution.now() - since >= grace) return giveUp(execution, error)
  parts.logger.warn({ id: item.id, type: item.type, problem: message }, 'given back: another version may fit')
  return insist(execution, async () => ({
    ...restMismatched(execution, error, Math.min(grace, LONGEST_GIVE_BACK)),
    restedEpoch: unfollowedEpoch(execution),
  }))
}

/**
 * Into troubleshooting without having followed the record: the state here is not to be trusted. Whoever cancelled it
 * without compensation needs no record to be followed.
 */
async function giveUp(execution: Execution, error: RecordedFailure): Promise<Rest> {
  return insist(execution, async () => {
    const ends = execution.cancel === 'PLAIN'
    if (ends) await execution.parts.remotes.cancelChildren(execution.item.id, false)
    const rest = ends ? restEnded(execution, 'CANCELLED', {}) : restInTrouble(execution, error)
    return { ...rest, state: undefined, restedEpoch: unfollowedEpoch(execution) }
  })
}

/** A claim after a rest in order sees the epoch of the rest as its last but one; after an interruption it sees less. */
const wasInterrupted = ({ item }: Execution): boolean => item.epoch - 1 > item.restedEpoch

/** Keeps what the next claim sees; and where calls were begun here and not recorded, it sees an interruption. */
const unfollowedEpoch = ({ item, hasBegun }: Execution): number => item.restedEpoch + (hasBegun ? 1 : 2)

/**
 * The execution before this one did not rest in order: its worker died, or lost its lease. It may have begun exactly the calls
 * that its record leads to and does not answer (K-19), because nothing is called before what led to it is committed. That goes
 * on record with the next write, before anything else happens with them. A transaction commits with its record, or not at
 * all; an at-most-once step has `STARTED` before it; and what had turned to undoing begins no calls.
 */
function noteInterrupted(execution: Execution): void {
  if (execution.unwinding) return
  for (const call of execution.calls.open()) {
    const { spec, progress, nextAt, name, occurrence } = call
    const due = progress === 'new' || (progress === 'retrying' && (nextAt ?? 0) <= execution.now())
    if (!due || !INTERRUPTIBLE.has(spec.kind) || call.outcome === 'unknown') continue
    if ('atMostOnce' in spec && spec.atMostOnce) continue
    const { seq } = execution.journal.append({
      kind: spec.kind,
      name,
      occurrence,
      status: 'STARTED',
      attempt: call.attempts + 1,
      detail: { recovered: true },
    })
    call.lastSeq = seq
    call.interrupted()
  }
}

const INTERRUPTIBLE: ReadonlySet<string> = new Set(['STEP', 'SIDE_EFFECT', 'COMMAND', 'CHILD'])

/** Rests whatever comes: what has come is heard, and the rest made again. */
async function insist(execution: Execution, make: () => Promise<Rest>): Promise<Rest> {
  for (;;) {
    const rested = await write(execution, await make())
    if (rested) return rested
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

const errorOf = ({ error }: Extract<Verdict, { to: 'UNWIND' | 'END' }>) =>
  error ? { error: { code: error.code, message: error.message } } : {}

/**
 * Told once the end is committed, so that no other end can follow, and at most once: killed in between, nobody is told. A hook
 * that does not return is left to itself when its time is over.
 */
async function tellHook(
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
      hook(execution.state.shown, { id, key, ...end }),
    )
  } catch (error) {
    execution.parts.logger.error({ err: error, id, hook: which }, 'a hook failed; the process has ended all the same')
  }
}
