// The way forward of a step-based process: enters steps, applies replies, takes replies from outside in their order. `decide.ts` calls
// it. Pure: it writes into the draft only, and a reply must take effect at most once.

import type { RecordedFailure } from '../history.js'
import type { ManagedDetail } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import type { Draft } from './draft.js'
import { failureIn, refusalOf, toStepReply } from './step-reply.js'
import { carriedLimit, exceedDeadline, isLate } from './time-limits.js'
import { beginUndoing } from './undoing.js'

type Entered = Readonly<Record<string, number>>

/** Enters the first step. Handlers that fail leave no record: the operator's retry begins again. */
export function begin(draft: Draft): void {
  const before = draft.changes
  try {
    enter(draft, draft.handlers.firstStep(draft.state), {})
  } catch (error) {
    draft.changes = { ...before, status: 'WAITING_FOR_TSQ', error: failureIn(error) }
  }
}

/** Begins a step: sends its command, or waits for what comes from outside. */
export function enter(draft: Draft, step: string, before: Entered): void {
  const occurrence = (Object.hasOwn(before, step) ? (before[step] ?? 0) : 0) + 1
  const entered = { ...before, [step]: occurrence }
  const command = draft.handlers.begin(step, draft.state)
  if (!command) {
    const timeoutMs = draft.handlers.timeoutMs(step, draft.state)
    const detail = { entered, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
    draft.record({ kind: 'WAIT', name: step, occurrence, status: 'STARTED', detail })
    draft.change({ status: 'WAITING_FOR_REPLY', error: undefined })
    return
  }
  const commandId = draft.commandId('COMMAND', step, occurrence)
  const detail = { startedId: commandId, entered }
  draft.record({ kind: 'COMMAND', name: step, occurrence, status: 'STARTED', detail })
  draft.change({ status: 'WAITING_FOR_REPLY', error: undefined, send: { commandId, step, command } })
}

/** The final reply to the command of a step. */
export function applyStepReply(draft: Draft, reply: StoredReply): void {
  const { name, occurrence, detail } = draft.changes.position
  const given = toStepReply(draft.codec, reply)
  draft.setState(draft.handlers.onReply(draft.state, name, given))
  const refusal = reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, reply)
  draft.record({ kind: 'COMMAND', name, occurrence, ...replyRecord(reply, refusal, { startedId: detail.startedId }) })
  if (refused(draft, refusal)) return
  proceed(draft, draft.handlers.nextStep(name, given, draft.state), detail.entered ?? {})
}

/** A step that only waits takes what has come from outside, in the order in which it came. True while it goes on. */
export function takeNext(draft: Draft): boolean {
  const { position, status, ended } = draft.changes
  const [next] = draft.ahead
  const waits = position.kind === 'WAIT' || position.kind === 'EVENT'
  if (!next || !waits || ended || status === 'WAITING_FOR_TSQ') return false
  draft.attempt(() => {
    const { name, occurrence, detail } = position
    const given = toStepReply(draft.codec, next.reply)
    draft.setState(draft.handlers.onReply(draft.state, name, given))
    draft.change({ seen: next.number, status: 'WAITING_FOR_REPLY', error: undefined })
    const refusal = next.reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, next.reply)
    // The time is counted from when the step was reached, not from the last reply.
    const about = { response: next.number, entered: detail.entered, ...carriedLimit(position) }
    draft.record({ kind: 'EVENT', name, occurrence, ...replyRecord(undefined, refusal, about) })
    if (refused(draft, refusal)) return
    const step = draft.handlers.nextStep(name, given, draft.state)
    if (step !== name) proceed(draft, step, detail.entered ?? {})
  })
  return true
}

function proceed(draft: Draft, step: string | undefined, entered: Entered): void {
  if (step === undefined) draft.end('COMPLETED')
  else if (isLate(draft.managed)) exceedDeadline(draft)
  else enter(draft, step, entered)
}

/** A failed or cancelled command compensates the process, and so does a cancellation by an operator. */
function refused(draft: Draft, refusal: RecordedFailure | undefined): boolean {
  if (draft.managed.cancel === 'COMPENSATE') beginUndoing(draft, { end: 'CANCELLED', reason: 'CANCEL' })
  else if (refusal) beginUndoing(draft, { end: 'COMPENSATED', reason: 'FAILURE', error: refusal })
  else return false
  return true
}

/** The record of a reply. */
export function replyRecord(
  reply: StoredReply | undefined,
  refusal: RecordedFailure | undefined,
  about: { [Name in keyof ManagedDetail]?: ManagedDetail[Name] | undefined },
) {
  const detail: ManagedDetail = Object.fromEntries(
    Object.entries({ ...about, error: refusal, outcome: refusal && reply?.effect }).filter(
      ([, value]) => value !== undefined,
    ),
  )
  if (refusal) return { status: 'FAILED', detail } as const
  if (!reply) return { status: 'COMPLETED', detail } as const
  return { status: 'COMPLETED', result: reply.result ?? null, notes: reply.notes ?? null, detail } as const
}
