import type { Why } from '../kernel/model/why.js'
import { missingWorker, PAUSED } from '../kernel/results/presence.js'
import type { OwnExecutionStanding } from './queries/read-standing.js'

/** What the process of a dispatched item does. */
export function whyProcess(process: OwnExecutionStanding, now: Date): Why {
  const { type, status, leased, paused, live, waitingFor, error } = process
  const startAt = process.startAt === null ? undefined : new Date(process.startAt)
  if (status === 'WAITING_FOR_TSQ') {
    return { reason: 'needsPerson', text: `Its process of ${type} needs a person: ${error}.` }
  }
  if (paused) return { reason: 'paused', text: `Its process of ${type} is ${PAUSED}.` }
  if (leased) return { reason: 'running', text: `Its process of ${type} is running.` }
  if (status === 'PENDING' && startAt && startAt > now) {
    return { reason: 'notDue', text: `Its process of ${type} begins at ${startAt.toISOString()}.`, at: startAt }
  }
  if (!live) return { reason: 'noWorker', text: `${missingWorker('processes', type)}.` }
  if (status === 'PENDING') return { reason: 'queued', text: `Its process of ${type} waits for a free worker.` }
  const forWhat = waitingFor === null ? '' : `, waiting for ${waitingFor}`
  return { reason: waitingFor === null ? 'queued' : 'waiting', text: `Its process of ${type} is ${status}${forWhat}.` }
}
