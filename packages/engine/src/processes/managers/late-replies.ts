import type { StoredReply } from '../replies/message.js'
import type { Draft } from './draft.js'
import { replyRecord } from './forward.js'
import { refusalOf, toStepReply } from './step-reply.js'

/** The reply to a command that was in progress when the process ended: it is recorded and applied to the state, nothing else. */
export function recordLateReply(draft: Draft, reply: StoredReply): void {
  const { kind, name, occurrence, attempt, detail } = draft.changes.position
  const refusal = reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, reply)
  const about = { startedId: detail.startedId }
  draft.record({
    kind,
    name,
    occurrence,
    ...(attempt === null ? {} : { attempt }),
    ...replyRecord(reply, refusal, about),
  })
  if (kind === 'COMMAND') patch(draft, name, reply)
}

/** Replies from outside that no step took are applied to the state that readers see. */
export function patchWithUnappliedReplies(draft: Draft): void {
  for (const { number, reply } of draft.ahead) {
    patch(draft, draft.changes.position.name, reply)
    draft.change({ seen: number })
  }
}

function patch(draft: Draft, step: string, reply: StoredReply): void {
  try {
    draft.setState(draft.handlers.onReply(draft.state, step, toStepReply(draft.codec, reply)))
  } catch {
    // No operator can act any more: the reply is on record, and the state stays as it is.
  }
}
