import type { StoredReply } from '../replies/message.js'
import type { Draft } from './draft.js'
import { answered } from './forward.js'
import { refusalOf, toStepReply } from './step-reply.js'

/** The reply to a command that was under way when the process ended: on record, in the state, and nothing else. */
export function answerLate(draft: Draft, reply: StoredReply): void {
  const { kind, name, occurrence, attempt, detail } = draft.changes.position
  const refusal = reply.outcome === 'SUCCESS' ? undefined : refusalOf(name, reply)
  const about = { startedId: detail.startedId }
  draft.record({ kind, name, occurrence, ...(attempt === null ? {} : { attempt }), ...answered(reply, refusal, about) })
  if (kind === 'COMMAND') patch(draft, name, reply)
}

/** What came from outside and was never met is in the state that readers see. */
export function patchWithUnmet(draft: Draft): void {
  for (const { number, reply } of draft.ahead) {
    patch(draft, draft.changes.position.name, reply)
    draft.change({ seen: number })
  }
}

function patch(draft: Draft, step: string, reply: StoredReply): void {
  try {
    draft.setState(draft.handlers.onReply(draft.state, step, toStepReply(draft.codec, reply)))
  } catch {
    // Nobody can be asked any more: the reply is on record, and the state stays as it is.
  }
}
