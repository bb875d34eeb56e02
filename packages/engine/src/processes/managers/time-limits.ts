import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import { toRecorded } from '../execution/decisions.js'
import type { ManagedProcess, Position } from '../queries/read-managed.js'
import { processOf } from '../refused.js'
import type { Draft } from './draft.js'
import { troubleOf } from './step-reply.js'
import { beginUndoing } from './undoing.js'

/** Whether its deadline has passed, at the moment when it was read. */
export function isLate({ now, deadline }: Pick<ManagedProcess, 'now' | 'deadline'>): boolean {
  return deadline !== null && deadline <= now
}

/** Steps that only wait end with their time; a command under way may have an effect, and its reply is waited for. */
const isWaiting = ({ changes: { position, status, ended } }: Draft): boolean =>
  !ended && status === 'WAITING_FOR_REPLY' && (position.kind === 'WAIT' || position.kind === 'EVENT')

function timeoutOf({ detail, at }: Position): number | undefined {
  return detail.timeoutAt ?? (detail.timeoutMs === undefined ? undefined : at + detail.timeoutMs)
}

/** What the record of a reply keeps of the wait that goes on. */
export function carriedLimit(position: Position): { readonly timeoutMs?: number; readonly timeoutAt?: number } {
  const timeoutAt = timeoutOf(position)
  const { timeoutMs } = position.detail
  return timeoutAt === undefined || timeoutMs === undefined ? {} : { timeoutMs, timeoutAt }
}

/** When the process is due although no reply has come. */
export function limitsOf(draft: Draft): { dueAt: number | undefined; timeoutAt: number | undefined } {
  if (!isWaiting(draft)) return { dueAt: undefined, timeoutAt: undefined }
  const timeoutAt = timeoutOf(draft.changes.position)
  const limits = [timeoutAt, draft.managed.deadline ?? undefined].filter((limit) => limit !== undefined)
  return { dueAt: limits.length === 0 ? undefined : Math.min(...limits), timeoutAt }
}

/** Applies the deadline and the timeout to a process that waits. */
export function applyTimeLimits(draft: Draft): void {
  if (!isWaiting(draft)) return
  const timeoutAt = timeoutOf(draft.changes.position)
  if (isLate(draft.managed)) draft.attempt(() => exceedDeadline(draft))
  else if (timeoutAt !== undefined && timeoutAt <= draft.managed.now) timeOut(draft)
}

/** The deadline has passed: undone, ended, or thrown for a person, whose retry finds everything as it was. */
export function exceedDeadline(draft: Draft): void {
  const late = new HoldfastError('HF_DEADLINE_EXCEEDED', processOf(draft.handlers.name, draft.managed.id))
  const error = { ...toRecorded(classifyFailure(late, { unknown: 'permanent' })), code: 'DEADLINE_EXCEEDED' }
  const { deadlineAction } = draft.handlers
  if (deadlineAction === 'tsq') throw new PermanentError(late.message, { code: 'DEADLINE_EXCEEDED' })
  if (deadlineAction === 'fail') draft.end('FAILED', error)
  else beginUndoing(draft, { end: 'COMPENSATED', reason: 'DEADLINE', error })
}

function timeOut(draft: Draft): void {
  const { name, occurrence, detail } = draft.changes.position
  const { entered = {}, timeoutMs = 0 } = detail
  const error = troubleOf('WAIT_TIMEOUT', `the wait \`${name}\` has timed out`)
  const timedOut = { entered, timeoutMs, timedOut: true, error }
  draft.record({ kind: 'WAIT', name, occurrence, status: 'WAITING_RETRY', detail: timedOut })
  draft.change({ status: 'WAITING_FOR_TSQ', error })
}
