import type { StoredReply } from '../replies/message.js'
import type { Draft } from './draft.js'
import { answered, answerStep } from './forward.js'
import { refusalOf } from './step-reply.js'
import { beginUndoing, undoAgain, undone } from './undoing.js'

export function answer(draft: Draft, reply: StoredReply): void {
  if (draft.changes.position.kind === 'COMPENSATION') undone(draft, reply)
  else answerStep(draft, reply)
}

/** What an operator has asked for: to undo it, or to try again what a handler or a compensation failed at. */
export function obeyOperator(draft: Draft): void {
  const { position, status } = draft.changes
  const { reply, startedId } = position.detail
  const undoing = position.kind === 'COMPENSATION'
  // A command under way may yet have an effect that has to be undone: its reply is waited for. One that has not begun was
  // called off with the operator's call (`call_off_managed`), and its reply is on its way.
  if (draft.managed.cancel === 'COMPENSATE' && !undoing && !draft.awaits(startedId)) {
    draft.attempt(() => cancel(draft, reply))
  } else if (status !== 'WAITING_FOR_TSQ') {
    if (reply) draft.attempt(() => answer(draft, reply), reply)
    else if (undoing && position.status === 'FAILED') draft.attempt(() => undoAgain(draft))
  }
}

/** A step whose reply could not be handled has had its effect, or may have had it, and is undone like the others. */
function cancel(draft: Draft, reply: StoredReply | undefined): void {
  const { name, occurrence, detail } = draft.changes.position
  if (reply) {
    const refusal = reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, reply)
    draft.record({ kind: 'COMMAND', name, occurrence, ...answered(reply, refusal, { startedId: detail.startedId }) })
  }
  beginUndoing(draft, { end: 'CANCELLED', reason: 'CANCEL' })
}

/** An operator has retried, and there is nothing to do but to wait on: for the reply, or for its command's operator. */
export function standStill(draft: Draft): void {
  const { position, status, ended } = draft.changes
  if (ended || (status !== 'PENDING' && status !== 'COMPENSATING')) return
  const { kind, name, occurrence, detail } = position
  const waits = kind === 'WAIT' || kind === 'EVENT'
  if (position.status === 'WAITING_RETRY' && detail.error && !waits) {
    draft.change({ status: 'WAITING_FOR_TSQ', error: detail.error })
    return
  }
  if (waits && detail.timeoutMs !== undefined && position.status === 'WAITING_RETRY') {
    // The operator's retry arms the wait anew.
    const { entered = {}, timeoutMs } = detail
    draft.record({ kind: 'WAIT', name, occurrence, status: 'STARTED', detail: { entered, timeoutMs } })
  }
  draft.change({ status: kind === 'COMPENSATION' ? 'COMPENSATING' : 'WAITING_FOR_REPLY' })
}
