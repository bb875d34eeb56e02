import type { CommandDefinition } from '../../commands/index.js'
import type { Codec } from '../../kernel/codec/codec.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError, PermanentError } from '../../kernel/failure/failure-errors.js'
import { toRecorded, trouble } from '../execution/decisions.js'
import type { RecordedFailure } from '../history.js'
import type { ReplyOutcome, StoredReply } from '../replies/message.js'

/** A final reply, as the handlers of a manager get it. */
export interface StepReply {
  /** None for a reply from outside that belongs to no command of ours. */
  readonly commandId: string | null
  readonly outcome: ReplyOutcome
  /** What the handler returned; `resultOf` gives it its type. */
  readonly result: unknown
  readonly errorType: string | undefined
  readonly errorCode: string | undefined
  readonly errorMessage: string | undefined
}

/**
 * The result of a command, with the type that its definition gives it.
 *
 * @example
 * onReply: (order, step, reply) => step === 'charge' ? { ...order, receipt: resultOf(ChargeCard, reply).receipt } : order
 */
export function resultOf<Input, Data, Result>(
  command: CommandDefinition<Input, Data, Result>,
  reply: StepReply,
): Result {
  if (reply.outcome === 'SUCCESS') {
    // The worker encoded what the typed handler returned.
    return reply.result as Result
  }
  throw new PermanentError(`${command.domain}/${command.type} has no result: it ended ${reply.outcome}`, {
    code: 'NO_RESULT',
  })
}

export function toStepReply(codec: Codec, reply: StoredReply): StepReply {
  return {
    commandId: reply.commandId,
    outcome: reply.outcome,
    result:
      reply.outcome === 'SUCCESS'
        ? codec.decode({ json: reply.result ?? null, notes: reply.notes ?? null })
        : undefined,
    errorType: reply.errorType,
    errorCode: reply.errorCode,
    errorMessage: reply.errorMessage,
  }
}

/** Why a process is undone. */
export function refusalOf(step: string, { outcome, errorCode, errorMessage }: StoredReply): RecordedFailure {
  const message = errorMessage ?? `the command of step \`${step}\` was ${outcome.toLowerCase()}`
  const error = new BusinessError(message, { code: errorCode ?? `COMMAND_${outcome}` })
  return toRecorded(classifyFailure(error, { unknown: 'permanent' }))
}

/** Why a process waits for a person. */
export function troubleOf(code: string, message: string): RecordedFailure {
  return toRecorded(classifyFailure(new PermanentError(message, { code }), { unknown: 'permanent' }))
}

/** A handler that threw. Our own codes say what is wrong with its return value; anything else is HANDLER_FAILED. */
export function failureIn(error: unknown): RecordedFailure {
  const recorded = toRecorded(classifyFailure(error, { unknown: 'permanent' }))
  const code = error instanceof PermanentError && ours.has(error.code) ? error.code : 'HANDLER_FAILED'
  const verdict = trouble(code, recorded)
  return verdict.to === 'TSQ' ? verdict.error : recorded
}

const ours: ReadonlySet<string> = new Set([
  'UNKNOWN_STEP',
  'ASYNC_HANDLER',
  'NO_STATE',
  'CRASH_LOOP',
  'DEADLINE_EXCEEDED',
])
