import { codeOf } from '../kernel/database/transient.js'
import { HoldfastError } from '../kernel/errors.js'

/** Turns PostgreSQL's errors about a missing table, function or right into errors about queues; others are not changed. */
export function explainQueueError(error: unknown, queue: string): unknown {
  const original = originalOf(error)
  if (original === undefined) return error
  const { message } = original
  switch (codeOf(original)) {
    case '42P01':
      return isAbout(message, queue) ? new HoldfastError('HF_QUEUE_NOT_FOUND', { queue }, { cause: error }) : error
    case '42883':
    case '3F000':
      return new HoldfastError('HF_QUEUE_UNAVAILABLE', { problem: message }, { cause: error })
    case '42501':
      return new HoldfastError('HF_NOT_PERMITTED', notPermitted(message, queue), { cause: error })
    default:
      return error
  }
}

/** Inside a caller's transaction the error is what the caller's library makes of it: Drizzle wraps it. */
function originalOf(error: unknown): Error | undefined {
  if (!(error instanceof Error)) return undefined
  return codeOf(error) === '' && error.cause instanceof Error ? error.cause : error
}

/** PostgreSQL says it in the language of the server, but the name of the table is in it. */
function isAbout(message: string, queue: string): boolean {
  return message.includes(`pgmq.q_${queue}`) || message.includes(`pgmq.a_${queue}`)
}

function notPermitted(problem: string, queue: string) {
  return {
    operation: `use the queue \`${queue}\``,
    problem,
    remedy:
      'Its owner can grant the rights on its tables, and an administrator `create on schema pgmq` for new queues.',
  }
}
