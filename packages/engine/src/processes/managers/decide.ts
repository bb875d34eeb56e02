// Decides what replies, operators and time make of a step-based process. Pure: `driver.ts` reads the process, calls
// `decide`, and writes the decision if the process has not changed meanwhile; otherwise it decides again. The rules are
// in `forward.ts`, `undoing.ts`, `operating.ts` and `time-limits.ts`, which all work on one `Draft`. A reply must take
// effect at most once.

import type { Encoded } from '../../kernel/codec/codec.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import type { ManagedProcess, SentBefore } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import { hasEnded } from '../states.js'
import { type Changes, type CommandSent, Draft, type DraftOptions, type KeptReply, type ManagedEvent } from './draft.js'
import { begin, takeNext } from './forward.js'
import { patchWithUnappliedReplies, recordLateReply } from './late-replies.js'
import { applyFinalReply, applyOperatorRequest, keepWaiting } from './operating.js'
import { troubleOf } from './step-reply.js'
import { applyTimeLimits, limitsOf } from './time-limits.js'

/** A reply that was read from the queue. */
export interface Incoming {
  readonly messageId: string
  readonly readCount: number
  /** Chosen by an external sender: a second reply with the same id is not recorded. */
  readonly replyId: string | null
  readonly final: boolean
  readonly reply: StoredReply
  readonly before: SentBefore
}

export interface DecisionInput extends DraftOptions {
  readonly replies: readonly Incoming[]
}

export interface Decision {
  readonly events: readonly ManagedEvent[]
  readonly keep: readonly KeptReply[]
  readonly state: Encoded | undefined
  readonly seen: number
  /** How the process waits or has ended. */
  readonly suspension: Pick<Changes, 'status' | 'ended' | 'error'> & {
    readonly waitingFor: { readonly step: string; readonly occurrence: number }
    /** When the process is due, whether or not a reply has come. */
    readonly dueAt: number | undefined
    readonly timeoutAt: number | undefined
  }
  /** False where nothing but the queue changes, or replies are only kept. */
  readonly moves: boolean
  /** What came after the end of the process. */
  readonly late: readonly StoredReply[]
  readonly send: CommandSent | undefined
  /** Replies that change nothing: provisional ones that no step waits for, and repetitions. */
  readonly ignored: readonly Incoming[]
}

/** A reply that was read so often without being applied ends its workers. */
const CRASHES = 5

/**
 * What replies, and what an operator asks for, make of a step-based process. Pure: it decides by what
 * was read, and may be called again.
 */
export function decide(input: DecisionInput): Decision {
  const { managed } = input
  const draft = new Draft(input)
  const overBefore = hasEnded(managed.status)
  const progress: ReplyProgress = { draft, overBefore, replied: new Set(), ignored: [], late: [] }
  if (!overBefore && managed.cancel === 'PLAIN') draft.end('CANCELLED')
  if (isUnbegun(managed)) begin(draft)
  for (const incoming of input.replies) applyReply(progress, incoming)
  if (!overBefore) {
    if (!draft.changes.ended && draft.changes.send === undefined) applyOperatorRequest(draft)
    while (takeNext(draft));
    if (draft.changes.events.length === 0) keepWaiting(draft)
    applyTimeLimits(draft)
  }
  if (overBefore || draft.changes.ended) patchWithUnappliedReplies(draft)
  return toDecision(progress)
}

/** Started through SQL: no program with its handlers has seen it yet. */
const isUnbegun = ({ last, status, cancel }: ManagedProcess): boolean =>
  last.seq === 0 && status === 'PENDING' && cancel === null

interface ReplyProgress {
  readonly draft: Draft
  readonly overBefore: boolean
  /** Commands whose replies were among these. */
  readonly replied: Set<string>
  readonly ignored: Incoming[]
  readonly late: StoredReply[]
}

function applyReply(progress: ReplyProgress, incoming: Incoming): void {
  const { draft, overBefore, replied, ignored, late } = progress
  const { reply, final, replyId, readCount } = incoming
  const over = overBefore || draft.changes.ended
  if (replyId !== null || !draft.awaits(reply.commandId)) {
    if (final && !isRepetition(progress, incoming)) keep(progress, incoming)
    else ignored.push(incoming)
    return
  }
  if (!final) {
    if (over) ignored.push(incoming)
    else provisional(draft, reply)
    return
  }
  if (reply.commandId !== null) replied.add(reply.commandId)
  if (over) {
    recordLateReply(draft, reply)
    if (overBefore) late.push(reply)
    return
  }
  draft.attempt(() => {
    if (readCount > CRASHES) throw crashLoop(readCount)
    applyFinalReply(draft, reply)
  }, reply)
}

/** A reply to a command that already has its reply, or one from outside that is on record under its id. */
function isRepetition({ draft, replied }: ReplyProgress, { reply, replyId, before }: Incoming): boolean {
  if (replyId !== null) {
    return before.recorded === true || draft.keep.some(({ responseId }) => responseId === `reply:${replyId}`)
  }
  if (reply.commandId === null) return false
  const current = draft.changes.position.detail.startedId === reply.commandId
  return current || replied.has(reply.commandId) || before.earlierCommand === true
}

function keep({ draft, overBefore, late }: ReplyProgress, { reply, replyId, messageId }: Incoming): void {
  const number = draft.managed.responses + draft.keep.length + 1
  draft.keep.push({ number, responseId: replyId === null ? `message:${messageId}` : `reply:${replyId}`, reply })
  if (overBefore) late.push(reply)
}

/** Its command waits for an operator, and so does the process, until the final reply. */
function provisional(draft: Draft, { errorCode, errorMessage }: StoredReply): void {
  const { kind, name, occurrence, attempt, detail } = draft.changes.position
  const why = [errorCode, errorMessage].filter((part) => part !== undefined).join(': ')
  const error = troubleOf('COMMAND_IN_TROUBLESHOOTING', `the command of step \`${name}\` waits for an operator: ${why}`)
  const nth = attempt === null ? {} : { attempt }
  draft.record({ kind, name, occurrence, status: 'WAITING_RETRY', ...nth, detail: { ...detail, error } })
  draft.change({ status: 'WAITING_FOR_TSQ', error })
}

function crashLoop(reads: number): PermanentError {
  return new PermanentError(`its reply was read ${reads} times and never applied: the handlers end their workers`, {
    code: 'CRASH_LOOP',
  })
}

function toDecision({ draft, overBefore, late, ignored }: ReplyProgress): Decision {
  const { events, encoded, seen, status, ended, error, unwind, position, send } = draft.changes
  // What stands in the record is repeated where the process stays in trouble, or goes on being undone.
  const standing = { WAITING_FOR_TSQ: position.detail.error, COMPENSATING: unwind?.error }
  const why = status === 'WAITING_FOR_TSQ' || status === 'COMPENSATING' ? standing[status] : undefined
  return {
    events,
    keep: draft.keep,
    state: encoded,
    seen,
    suspension: {
      status,
      ended,
      error: error ?? why,
      waitingFor: { step: position.name, occurrence: position.occurrence },
      ...limitsOf(draft),
    },
    moves: !overBefore && (events.length > 0 || ended || status !== draft.managed.status),
    late,
    send: ended ? undefined : send,
    ignored,
  }
}
