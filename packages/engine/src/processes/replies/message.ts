import type { Notes } from '../../kernel/codec/notes.js'

export type ReplyOutcome = 'SUCCESS' | 'FAILED' | 'CANCELLED'

/** A reply as it is kept: its result is still as it was encoded. */
export interface StoredReply {
  /** None for a reply from outside that belongs to no command. */
  readonly commandId: string | null
  readonly outcome: ReplyOutcome
  readonly result?: unknown
  readonly notes?: Notes | null
  readonly errorType?: string
  readonly errorCode?: string
  readonly errorMessage?: string
  /** It did not complete, and may have had its effect. */
  readonly effect?: 'unknown'
}

/** A message in the queue. The claim has checked correlation id, outcome and `final`; the other fields may be anything. */
export interface ReplyMessage {
  readonly command_id?: unknown
  readonly reply_id?: unknown
  readonly outcome: ReplyOutcome
  readonly final?: boolean
  readonly result?: unknown
  readonly error_type?: unknown
  readonly error_code?: unknown
  readonly error_message?: unknown
  readonly effect?: unknown
}

/** A reply from outside need not say that it is final. */
export const isFinal = ({ final }: ReplyMessage): boolean => final !== false

export function toStoredReply(message: ReplyMessage, notes: Notes | null): StoredReply {
  const { outcome, result, command_id: commandId, error_type, error_code, error_message, effect } = message
  return {
    commandId: typeof commandId === 'string' ? commandId.toLowerCase() : null,
    outcome,
    ...(result === undefined ? {} : { result }),
    ...(notes === null ? {} : { notes }),
    ...(typeof error_type === 'string' ? { errorType: error_type } : {}),
    ...(typeof error_code === 'string' ? { errorCode: error_code } : {}),
    ...(typeof error_message === 'string' ? { errorMessage: error_message } : {}),
    ...(effect === 'unknown' ? { effect } : {}),
  }
}
