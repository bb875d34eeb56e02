import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { type Inquiry, inquire as inquireAbout, type Logger } from '../kernel/model/index.js'
import type { CommandCall } from './command-call.js'

/** How long an `inquire` may take where the handler has no time limit, in milliseconds. */
const INQUIRE_LIMIT = 30_000

interface InquireOptions {
  readonly limitMs: number | undefined
  readonly patienceMs: number
  readonly logger: Logger
}

/**
 * Finds out the outcome of an earlier call that must not be repeated. Throws OUTCOME_UNKNOWN if that is not possible: a
 * person has to.
 */
export async function inquire(
  { handler, command, lease, running }: CommandCall,
  data: unknown,
  { limitMs = INQUIRE_LIMIT, patienceMs, logger }: InquireOptions,
): Promise<Exclude<Inquiry<unknown>, 'unknown'>> {
  const ask = handler?.inquire
  if (!ask) throw new OutcomeUnknown('its handler has no `inquire`')
  // The result of an inquiry about a call that still runs would be outdated at once.
  if (running) throw new OutcomeUnknown('its handler still runs although its time is over')
  const answer = await inquireAbout(
    (over) =>
      ask(data, {
        commandId: command.commandId,
        correlationId: command.correlationId,
        idempotencyKey: command.commandId,
        logger,
        get signal() {
          return over.signal
        },
      }),
    { limitMs, patienceMs, signal: () => lease.signal },
  )
  if (typeof answer === 'string' || 'done' in answer) return answer
  throw new OutcomeUnknown(answer.problem, answer.cause)
}

/** It is unknown whether a call had its effect; the command waits for a person. */
export class OutcomeUnknown extends Error {
  constructor(problem: string, cause?: unknown) {
    super(problem, { cause })
  }

  /** With what led here: an error of the call, or that an earlier one left no record. */
  toFailure(because: Failure | undefined): Failure {
    const what = because
      ? `the call failed with ${because.code} (${because.message})`
      : 'an earlier call may have had its effect and is not on record'
    const error = new PermanentError(`${what}, and ${this.message}`, { code: 'OUTCOME_UNKNOWN', cause: this.cause })
    const failure = classifyFailure(error, { unknown: 'permanent' })
    return because?.stack === undefined ? failure : { ...failure, stack: because.stack }
  }
}
