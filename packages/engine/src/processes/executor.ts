import { PermanentError } from '../kernel/failure/failure-errors.js'
import { splitName } from '../kernel/reports/reports.js'
import type { Lease } from '../kernel/work/leases.js'
import { checkEntry } from './entry-check.js'
import { isLostLease } from './execution/attempt.js'
import { toRecorded, trouble, type Verdict } from './execution/decisions.js'
import { drive, type Standstill, throwIfLost } from './execution/drive.js'
import { Execution } from './execution/execution.js'
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
import { beginUnwinding, unwind } from './execution/unwinding.js'
import { contextFor } from './execution/user-context.js'
import { meetRemotes } from './execution/waiting.js'
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
  const execution = new Execution(item, lease, parts)
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

async function toRest(execution: Execution): Promise<Rest> {
  const crashed = crashLoop(execution)
  if (crashed) return giveUp(execution, crashed)
  try {
    await execution.begin(contextFor(execution))
    await following(() => replay(execution))
    for (;;) {
      const rested = await attemptRest(execution, await drive(execution))
      if (rested) return rested
    }
  } catch (error) {
    if (error instanceof Mismatch) return mismatched(execution, error)
    if (error instanceof Unfollowable) return giveUp(execution, permanent(execution, error.cause))
    throw error
  }
}

/** Rests if nothing has come meanwhile; otherwise the execution has heard of it and goes on. */
async function attemptRest(execution: Execution, standstill: Standstill): Promise<Rest | undefined> {
  if (standstill.kind === 'verdict') return attemptVerdict(execution, standstill.verdict)
  if (standstill.kind === 'waiting' || standstill.kind === 'stopping') {
    checkState(execution)
    if (execution.verdict) return undefined
  }
  let wanted: Rest
  try {
    wanted = await restFor(execution, standstill)
  } catch (error) {
    execution.verdict = failureOf(execution, error)
    return undefined
  }
  if (standstill.kind === 'ended') await runHook(execution, 'completed', { result: standstill.value })
  return write(execution, wanted)
}

async function restFor(execution: Execution, standstill: Exclude<Standstill, { kind: 'verdict' }>): Promise<Rest> {
  switch (standstill.kind) {
    case 'ended':
      return restEnded(execution, 'COMPLETED', { value: standstill.value })
    case 'continue':
      return restContinuing(execution, standstill.state)
    case 'stopping':
      return restStopping(execution)
    case 'waiting':
      return restWaiting(execution)
  }
}

async function attemptVerdict(execution: Execution, verdict: Verdict): Promise<Rest | undefined> {
  switch (verdict.to) {
    case 'TSQ':
      return write(execution, restInTrouble(execution, verdict.error))
    case 'END':
      await callOffChildren(execution, false)
      await runHook(execution, verdict.end === 'CANCELLED' ? 'cancelled' : 'failed', errorOf(verdict))
      return write(execution, restEnded(execution, verdict.end, { error: verdict.error }))
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
  await callOffChildren(execution, true)
  const open = await following(() => meetRemotes(execution))
  if (open.length > 0) return write(execution, restBeforeUndoing(execution, open))
  const unwound = await unwind(execution)
  if ('dueAt' in unwound) return write(execution, restCompensating(execution, unwound.dueAt))
  if ('failed' in unwound) return write(execution, restInTrouble(execution, unwound.failed))
  await runHook(execution, verdict.end === 'CANCELLED' ? 'cancelled' : 'failed', errorOf(verdict))
  return write(execution, restEnded(execution, verdict.end, { error: verdict.error }))
}

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
  return insist(execution, async () => restMismatched(execution, error, Math.min(grace, LONGEST_GIVE_BACK)))
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
    return { ...rest, state: undefined }
  })
}

/** Rests whatever comes: what has come is heard, and the rest made again. */
async function insist(execution: Execution, make: () => Promise<Rest>): Promise<Rest> {
  for (;;) {
    const rested = await write(execution, await make())
    if (rested) return rested
  }
}

function permanent(execution: Execution, error: unknown): RecordedFailure {
  const recorded = toRecorded(execution.classify(error))
  return trouble(error instanceof PermanentError ? error.code : 'PERMANENT_FAILURE', recorded).error
}

function crashLoop(execution: Execution): RecordedFailure | undefined {
  const times = execution.item.lost?.alone ?? 0
  if (times < CRASHES) return undefined
  const problem = `its worker died ${times} times in a row while it ran alone and recorded nothing: it ends its workers`
  return permanent(execution, new PermanentError(problem, { code: 'CRASH_LOOP' }))
}

/** Cancelling a parent cancels its children (P-05). */
async function callOffChildren(execution: Execution, compensate: boolean): Promise<void> {
  if (![...execution.calls.open()].some(({ spec }) => spec.kind === 'CHILD')) return
  throwIfLost(execution)
  await execution.parts.remotes.cancelChildren(execution.item.id, compensate)
}

const errorOf = ({ error }: Extract<Verdict, { to: 'UNWIND' | 'END' }>) =>
  error ? { error: { code: error.code, message: error.message } } : {}

async function runHook(
  execution: Execution,
  which: 'completed' | 'failed' | 'cancelled',
  end: { readonly result?: unknown; readonly error?: { readonly code: string; readonly message: string } },
): Promise<void> {
  const hook = execution.parts.definition.hooks[which]
  // News may keep the process from resting, and it comes by once more.
  if (!hook || execution.told.has(which)) return
  execution.told.add(which)
  const { id, key } = execution.item
  try {
    await hook(execution.state.shown, { id, key, ...end })
  } catch (error) {
    execution.parts.logger.error({ err: error, id, hook: which }, 'a hook failed; the process ends all the same')
  }
}
