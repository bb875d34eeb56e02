import { missingWorker, type Pause, type Why } from '../kernel/model/index.js'
import type { CommandRecord } from './queries/find-commands.js'

/** What has to be known besides the command itself. */
export interface Circumstances {
  /** The pause that stops it, if there is one. */
  readonly pause: Pause | undefined
  /** A live worker has its handler. */
  readonly hasWorker: boolean
  /** The worker that received it last. */
  readonly receivedBy: string | null
  /** The time of the database. */
  readonly now: Date
}

/** Why a command does not continue, or that it has ended. */
export function whyOf(command: CommandRecord, { pause, hasWorker, receivedBy, now }: Circumstances): Why {
  const { status, attempts, dueAt, error, updatedAt } = command
  const failed = error ? ` with ${error.code}: ${withoutStop(error.message)}` : ''
  switch (status) {
    case 'COMPLETED':
    case 'FAILED':
    case 'CANCELLED':
      return { reason: 'ended', text: `It ended ${status} at ${updatedAt.toISOString()}${failed}.` }
    case 'IN_TROUBLESHOOTING_QUEUE':
      return { reason: 'needsPerson', text: `It failed for good${failed}; retry, complete or cancel it.` }
    case 'IN_PROGRESS': {
      const on = receivedBy === null ? '' : ` on worker ${receivedBy}`
      const text = `Attempt ${attempts} is running${on}${dueAt ? `, whose lease ends at ${dueAt.toISOString()}` : ''}.`
      return { reason: 'running', text, ...(dueAt ? { at: dueAt } : {}) }
    }
    case 'PENDING':
      break
  }
  if (pause) {
    const { subject, actor, reason, pausedAt } = pause
    const text = `The ${subject.replace(':', ' ')} was paused by ${actor} at ${pausedAt.toISOString()}: ${withoutStop(reason)}.`
    return { reason: 'paused', text }
  }
  if (dueAt === null) {
    const text = `Its message is gone because the queue of the domain ${command.domain} was dropped; cancel it and send it again.`
    return { reason: 'needsPerson', text }
  }
  const name = `${command.domain}/${command.type}`
  const worker = hasWorker ? 'a live worker has its handler' : missingWorker('commands', name)
  const after = error ? `, after attempt ${attempts} failed${failed}` : ''
  if (dueAt > now) {
    return {
      reason: 'notDue',
      text: `Attempt ${attempts + 1} is due at ${dueAt.toISOString()}${after}; ${worker}.`,
      at: dueAt,
    }
  }
  const text = `Attempt ${attempts + 1} has been due since ${dueAt.toISOString()}${after}; ${worker}.`
  return { reason: hasWorker ? 'queued' : 'noWorker', text }
}

const withoutStop = (text: string): string => text.replace(/\.$/, '')
