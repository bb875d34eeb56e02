import type { StoredReply } from '../replies/message.js'
import type { Draft } from './draft.js'
import { applyStepReply, replyRecord } from './forward.js'
import { refusalOf } from './step-reply.js'
import { beginUndoing, undoAgain, undone } from './undoing.js'

export function applyFinalReply(draft: Draft, reply: StoredReply): void {
  if (draft.changes.position.kind === 'COMPENSATION') undone(draft, reply)
  else applyStepReply(draft, reply)
}

/** Applies the request of an operator: compensate the process, or retry a failed handler or compensation. */
export function applyOperatorRequest(draft: Draft): void {
  const { position, status } = draft.changes
  const { reply, startedId } = position.detail
  const undoing = position.kind === 'COMPENSATION'
  // A command under way may yet have an effect that has to be undone: its reply is waited for. One that has not begun was
  // cancelled with the operator's call (`call_off_managed`), and its reply will come.
  if (draft.managed.cancel === 'COMPENSATE' && !undoing && !draft.awaits(startedId)) {
    draft.attempt(() => cancel(draft, reply))
  } else if (status !== 'WAITING_FOR_TSQ') {
    if (reply) draft.attempt(() => applyFinalReply(draft, reply), reply)
    else if (undoing && position.status === 'FAILED') draft.attempt(() => undoAgain(draft))
  }
}

/** A step whose reply could not be handled has had its effect, or may have had it, and is undone like the others. */
function cancel(draft: Draft, reply: StoredReply | undefined): void {
  const { name, occurrence, detail } = draft.changes.position
  if (reply) {
    const refusal = reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, reply)
    draft.record({ kind: 'COMMAND', name, occurrence, ...replyRecord(reply, refusal, { startedId: detail.startedId }) })
  }
  beginUndoing(draft, { end: 'CANCELLED', reason: 'CANCEL' })
}

/** An operator has retried, and the process can only keep waiting: for the reply, or for an operator of its command. */
export function keepWaiting(draft: Draft): void {
  const { position, status, ended } = draft.changes
  if (ended || (status !== 'PENDING' && status !== 'COMPENSATING')) return
  const { kind, name, occurrence, detail } = position
  const waits = kind === 'WAIT' || kind === 'EVENT'
  if (position.status === 'WAITING_RETRY' && detail.error && !waits) {
    draft.change({ status: 'WAITING_FOR_TSQ', error: detail.error })
    return
  }
  if (waits && detail.timeoutMs !== undefined && position.status === 'WAITING_RETRY') {
    // The operator's retry starts the wait again.
    const { entered = {}, timeoutMs } = detail
    draft.record({ kind: 'WAIT', name, occurrence, status: 'STARTED', detail: { entered, timeoutMs } })
  }
  draft.change({ status: kind === 'COMPENSATION' ? 'COMPENSATING' : 'WAITING_FOR_REPLY' })
}
