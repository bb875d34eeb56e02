import { classifyFailure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import type { Lease } from '../kernel/work/leases.js'
import { checkEntry } from './entry-check.js'
import { isLostLease } from './execution/attempt.js'
import { toRecorded, trouble, type Verdict } from './execution/decisions.js'
import { drive, type Standstill, throwIfLost } from './execution/drive.js'
import { Execution } from './execution/execution.js'
import { Mismatch } from './execution/mismatch.js'
import type { ExecutionParts } from './execution/parts.js'
import { replay } from './execution/replay.js'
import {
  checkState,
  failureOf,
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
import { remoteId } from './execution/waiting.js'
import type { LiveExecutions } from './live.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import type { Rest } from './queries/write-processes.js'

/** A process that was claimed so often without recording anything kills its workers (P-13). */
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
    const entry = await checkEntry(item, parts)
    return 'rest' in entry ? entry.rest : await execute(entry.item, lease, parts, live)
  } catch (error) {
    if (!isLostLease(error)) throw error
    parts.logger.warn({ id: item.id, type: item.type, epoch: item.epoch }, 'lease lost: the execution changes nothing')
    return undefined
  }
}

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
    leave()
  }
}

async function toRest(execution: Execution): Promise<Rest> {
  const crashed = crashLoop(execution)
  if (crashed) return rest(execution, async () => restInTrouble(execution, crashed.error))
  try {
    await execution.begin(contextFor(execution))
    await replay(execution)
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error
    return mismatched(execution, error)
  }
  for (;;) {
    const standstill = await drive(execution)
    const news = await attemptRest(execution, standstill)
    if (news) return news
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
    await callOffChildren(execution, true)
  }
  const unwound = await unwind(execution)
  throwIfLost(execution)
  if ('dueAt' in unwound) return writeWhatever(execution, restCompensating(execution, unwound.dueAt))
  if ('failed' in unwound) {
    if (unwound.failed.to !== 'TSQ') throw new Error('a failed compensation needs a person')
    return writeWhatever(execution, restInTrouble(execution, unwound.failed.error))
  }
  await runHook(execution, verdict.end === 'CANCELLED' ? 'cancelled' : 'failed', errorOf(verdict))
  return writeWhatever(execution, restEnded(execution, verdict.end, { error: verdict.error }))
}

async function write(execution: Execution, wanted: Rest): Promise<Rest | undefined> {
  throwIfLost(execution)
  const news = await execution.journal.rest(wanted)
  if (!news) return wanted
  execution.hear(news)
  return undefined
}

/** While undoing, and in troubleshooting by our own doing, news changes nothing: it is heard and the rest repeated. */
async function writeWhatever(execution: Execution, wanted: Rest): Promise<Rest> {
  let heard = wanted
  for (;;) {
    const news = await execution.journal.rest(heard)
    if (!news) return heard
    execution.hear(news)
    heard = { ...heard, heard: execution.state.heard, heardCancel: heard.heardCancel || news.cancel !== null }
  }
}

async function rest(execution: Execution, make: () => Promise<Rest>): Promise<Rest> {
  return writeWhatever(execution, await make())
}

async function mismatched(execution: Execution, mismatch: Mismatch): Promise<Rest> {
  const { item, parts } = execution
  // Nothing is to be undone, so nothing has to be known of what was done.
  if (item.cancel === 'PLAIN') {
    return rest(execution, async () => ({ ...restEnded(execution, 'CANCELLED', {}), state: undefined }))
  }
  const error = new PermanentError(`the code of ${item.type} does not fit its history: ${mismatch.message}`, {
    code: 'NON_DETERMINISM',
  })
  const recorded = toRecorded(classifyFailure(error, { unknown: 'permanent' }))
  const grace = parts.definition.mismatchGraceMs
  const since = item.mismatchSince ?? execution.now()
  if (execution.now() - since >= grace) {
    return rest(execution, async () => ({ ...restInTrouble(execution, recorded), state: undefined }))
  }
  parts.logger.warn({ id: item.id, type: item.type, problem: mismatch.message }, 'given back: another version may fit')
  return rest(execution, async () => restMismatched(execution, recorded, Math.min(grace, LONGEST_GIVE_BACK)))
}

function crashLoop({ item }: Execution): Extract<Verdict, { to: 'TSQ' }> | undefined {
  const lastRecord = item.history.at(-1)?.epoch ?? 0
  const fruitless = item.epoch - 1 - Math.max(item.restedEpoch, lastRecord)
  if (fruitless < CRASHES) return undefined
  const error = new PermanentError(
    `it was claimed ${fruitless} times in a row and recorded nothing: it ends its workers`,
    {
      code: 'CRASH_LOOP',
    },
  )
  const verdict = trouble('CRASH_LOOP', toRecorded(classifyFailure(error, { unknown: 'permanent' })))
  return verdict.to === 'TSQ' ? verdict : undefined
}

/** Cancelling a parent cancels its children (P-05). */
async function callOffChildren(execution: Execution, compensate: boolean): Promise<void> {
  for (const call of execution.calls.with('waiting')) {
    if ('callOff' in call.spec) await call.spec.callOff?.(remoteId(execution, call), compensate)
  }
}

const errorOf = ({ error }: Extract<Verdict, { to: 'UNWIND' | 'END' }>) =>
  error ? { error: { code: error.code, message: error.message } } : {}

async function runHook(
  execution: Execution,
  which: 'completed' | 'failed' | 'cancelled',
  end: { readonly result?: unknown; readonly error?: { readonly code: string; readonly message: string } },
): Promise<void> {
  const hook = execution.parts.definition.hooks[which]
  if (!hook) return
  const { id, key } = execution.item
  try {
    await hook(execution.state.shown, { id, key, ...end })
  } catch (error) {
    execution.parts.logger.error({ err: error, id, hook: which }, 'a hook failed; the process ends all the same')
  }
}
