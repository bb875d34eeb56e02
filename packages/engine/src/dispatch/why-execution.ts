import type { Why } from '../kernel/model/why.js'
import { missingWorker, PAUSED } from '../kernel/results/presence.js'
import type { OwnExecutionStanding } from './queries/read-standing.js'

/** What the process or workflow of a dispatched item does. */
export function whyExecution(execution: OwnExecutionStanding, now: Date): Why {
  const { model, type, status, leased, paused, live, waitingFor, error } = execution
  const what = model === 'processes' ? `process of ${type}` : `instance of the workflow ${type}`
  const startAt = execution.startAt === null ? undefined : new Date(execution.startAt)
  if (status === 'WAITING_FOR_TSQ' || status === 'DLQ') {
    return { reason: 'needsPerson', text: `its ${what} needs a person: ${error}` }
  }
  if (paused) return { reason: 'paused', text: `its ${what} is ${PAUSED}` }
  if (leased) return { reason: 'running', text: `its ${what} is running` }
  if (status === 'PENDING' && startAt && startAt > now) {
    return { reason: 'notDue', text: `its ${what} begins at ${startAt.toISOString()}`, at: startAt }
  }
  if (!live && model === 'processes') return { reason: 'noWorker', text: missingWorker(model, type) }
  if (status === 'PENDING') return { reason: 'queued', text: `its ${what} waits for a free worker` }
  const forWhat = waitingFor === null ? '' : `, waiting for ${waitingFor}`
  return { reason: waitingFor === null ? 'running' : 'waiting', text: `its ${what} is ${status}${forWhat}` }
}
