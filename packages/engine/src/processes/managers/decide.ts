import type { Codec, Encoded } from '../../kernel/codec/codec.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import type { RecordedFailure } from '../history.js'
import type { CompletedCommand, ManagedProcess, SentBefore } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import { hasEnded, type ProcessStatus } from '../states.js'
import { answerLate, patchWithUnmet } from './aftermath.js'
import { type CommandSent, Draft, type KeptReply, type ManagedEvent } from './draft.js'
import { takeNext } from './forward.js'
import type { Handlers } from './handlers.js'
import { answer, obeyOperator, standStill } from './operating.js'
import { troubleOf } from './step-reply.js'
import { heedTime, limitsOf } from './time-limits.js'

/** A reply that was read from the queue. */
export interface Incoming {
  readonly messageId: string
  readonly readCount: number
  /** Given by who sends from outside: the same one twice is recorded once. */
  readonly replyId: string | null
  readonly final: boolean
  readonly reply: StoredReply
  readonly before: SentBefore
}

export interface Question {
  readonly managed: ManagedProcess
  readonly replies: readonly Incoming[]
  readonly completed: readonly CompletedCommand[]
  readonly handlers: Handlers
  readonly codec: Codec
  readonly refused?: { readonly commandId: string; readonly error: unknown } | undefined
}

interface Resting {
  readonly status: Exclude<ProcessStatus, 'EXECUTING'>
  readonly ended: boolean
  readonly error: RecordedFailure | undefined
  readonly waitingFor: { readonly step: string; readonly occurrence: number }
  /** When somebody is to look, whether or not a reply has come. */
  readonly dueAt: number | undefined
  readonly timeoutAt: number | undefined
}

export interface Decision {
  readonly events: readonly ManagedEvent[]
  readonly keep: readonly KeptReply[]
  readonly state: Encoded | undefined
  readonly seen: number
  readonly resting: Resting
  /** False where nothing but the queue changes, or replies are only kept. */
  readonly moves: boolean
  /** What came after the end of the process. */
  readonly late: readonly StoredReply[]
  readonly send: CommandSent | undefined
  /** Replies that change nothing: provisional ones that nobody waits for, repetitions. */
  readonly ignored: readonly Incoming[]
}

/** A reply that was read so often without being applied ends its workers. */
const CRASHES = 5

/**
 * What replies, and what an operator asks for, make of a step-based process (M-01, M-03, M-04). Pure: it decides by what
 * was read, and may be asked again.
 */
export function decide(question: Question): Decision {
  const { managed } = question
  const draft = new Draft(question)
  const overBefore = hasEnded(managed.status)
  const meeting: Meeting = { draft, overBefore, answered: new Set(), ignored: [], late: [] }
  if (!overBefore && managed.cancel === 'PLAIN') draft.end('CANCELLED')
  for (const incoming of question.replies) meet(meeting, incoming)
  if (!overBefore) {
    if (!draft.changes.ended && draft.changes.send === undefined) obeyOperator(draft)
    while (takeNext(draft));
    if (draft.changes.events.length === 0) standStill(draft)
    heedTime(draft)
  }
  if (overBefore || draft.changes.ended) patchWithUnmet(draft)
  return toDecision(meeting)
}

interface Meeting {
  readonly draft: Draft
  readonly overBefore: boolean
  /** Commands whose replies were among these. */
  readonly answered: Set<string>
  readonly ignored: Incoming[]
  readonly late: StoredReply[]
}

function meet(meeting: Meeting, incoming: Incoming): void {
  const { draft, overBefore, answered, ignored, late } = meeting
  const { reply, final, replyId, readCount } = incoming
  const over = overBefore || draft.changes.ended
  if (replyId !== null || !draft.awaits(reply.commandId)) {
    if (final && !isRepetition(meeting, incoming)) keep(meeting, incoming)
    else ignored.push(incoming)
    return
  }
  if (!final) {
    if (over) ignored.push(incoming)
    else provisional(draft, reply)
    return
  }
  if (reply.commandId !== null) answered.add(reply.commandId)
  if (over) {
    answerLate(draft, reply)
    if (overBefore) late.push(reply)
    return
  }
  draft.attempt(() => {
    if (readCount > CRASHES) throw crashLoop(readCount)
    answer(draft, reply)
  }, reply)
}

/** A reply to a command that was answered before, or one from outside that is on record under its id. */
function isRepetition({ draft, answered }: Meeting, { reply, replyId, before }: Incoming): boolean {
  if (replyId !== null) {
    return before.recorded === true || draft.keep.some(({ responseId }) => responseId === `reply:${replyId}`)
  }
  if (reply.commandId === null) return false
  const current = draft.changes.position.detail.startedId === reply.commandId
  return current || answered.has(reply.commandId) || before.command !== undefined
}

function keep({ draft, overBefore, late }: Meeting, { reply, replyId, messageId }: Incoming): void {
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

function toDecision({ draft, overBefore, late, ignored }: Meeting): Decision {
  const { events, sealed, seen, status, ended, error, unwind, position, send } = draft.changes
  // What stands in the record is repeated where the process stays in trouble, or goes on being undone.
  const standing = { WAITING_FOR_TSQ: position.detail.error, COMPENSATING: unwind?.error }
  const why = status === 'WAITING_FOR_TSQ' || status === 'COMPENSATING' ? standing[status] : undefined
  return {
    events,
    keep: draft.keep,
    state: sealed,
    seen,
    resting: {
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
