import type { RecordedFailure } from '../history.js'
import type { CompletedCommand } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import type { EndStatus } from '../states.js'
import type { Draft } from './draft.js'
import type { StepCommand } from './step-command.js'
import { refusalOf, troubleOf } from './step-reply.js'

/** From here on nothing but compensations. This is on record, so that the next worker knows it too. */
export function beginUndoing(
  draft: Draft,
  { end, reason, error }: { end: EndStatus; reason: 'FAILURE' | 'CANCEL' | 'DEADLINE'; error?: RecordedFailure },
): void {
  const detail = { reason, end, ...(error ? { error } : {}) }
  draft.record({ kind: 'UNWIND', name: reason, occurrence: 1, status: 'STARTED', detail })
  draft.change({ unwind: detail })
  undoNext(draft, Number.POSITIVE_INFINITY)
}

/** Sends the compensation of the last command before a record that has one; ends the process where none is left. */
function undoNext(draft: Draft, before: number): void {
  for (const command of undoable(draft)) {
    if (command.seq >= before) continue
    const compensation = draft.handlers.compensation(command.step, draft.state)
    if (!compensation) continue
    sendCompensation(draft, command, compensation, 1)
    return
  }
  const { unwind } = draft.changes
  draft.end(unwind?.end ?? 'COMPENSATED', unwind?.error)
}

/** The operator has retried: what failed is sent again, as a command of its own. */
export function undoAgain(draft: Draft): void {
  const { name, occurrence, attempt, detail } = draft.changes.position
  const command = { seq: detail.of ?? 0, step: name, occurrence }
  const compensation = draft.handlers.compensation(name, draft.state)
  if (compensation) sendCompensation(draft, command, compensation, (attempt ?? 1) + 1)
  else undoNext(draft, command.seq)
}

/** A compensation's reply never ends the process as completed: it leads to the next one, or to a person. */
export function undone(draft: Draft, reply: StoredReply): void {
  const { name, occurrence, attempt, detail } = draft.changes.position
  const { startedId, of } = detail
  const base = { kind: 'COMPENSATION', name, occurrence, attempt: attempt ?? 1 } as const
  const kept = { ...(startedId === undefined ? {} : { startedId }), ...(of === undefined ? {} : { of }) }
  if (reply.outcome === 'SUCCESS') {
    draft.record({ ...base, status: 'COMPLETED', result: reply.result, notes: reply.notes ?? null, detail: kept })
    undoNext(draft, of ?? 0)
    return
  }
  const { code, message } = refusalOf(name, reply)
  const error = troubleOf('COMPENSATION_FAILED', `the compensation of \`${name}\` failed: ${code}: ${message}`)
  draft.record({ ...base, status: 'FAILED', detail: { ...kept, error } })
  draft.change({ status: 'WAITING_FOR_TSQ', error })
}

function sendCompensation(draft: Draft, of: CompletedCommand, command: StepCommand, attempt: number): void {
  const { step, occurrence, seq } = of
  const commandId = draft.commandId('COMPENSATION', step, occurrence, attempt)
  draft.record({
    kind: 'COMPENSATION',
    name: step,
    occurrence,
    status: 'STARTED',
    attempt,
    detail: { startedId: commandId, of: seq },
  })
  draft.change({ status: 'COMPENSATING', error: draft.changes.unwind?.error, send: { commandId, step, command } })
}

/** Those on record, and those of this decision, that have completed or may have had their effect; the last one first. */
function undoable({ changes, completed }: Draft): readonly CompletedCommand[] {
  const now = changes.events
    .filter(
      ({ kind, status, detail }) => kind === 'COMMAND' && (status === 'COMPLETED' || detail.outcome === 'unknown'),
    )
    .map(({ seq, name, occurrence }) => ({ seq, step: name, occurrence }))
  return [...now.reverse(), ...completed]
}
