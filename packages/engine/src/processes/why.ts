import type { Executor } from '../kernel/database/executor.js'
import type { Why } from '../kernel/model/why.js'
import { missingWorker, PAUSED, presenceIn } from '../kernel/results/presence.js'
import type { ProcessRecord } from './queries/find-processes.js'
import { hasEnded } from './states.js'

/** Why a process does not go on at the moment, in one sentence, or how it has ended. */
export async function whyProcess(db: Executor, process: ProcessRecord): Promise<Why> {
  const { domain, type, status, error, leasedBy, dueAt, nextRetryAt, waitingFor, waitTimeoutAt, queuedAt } = process
  const failure = error ? `: ${error.code}: ${error.message}` : ''
  if (hasEnded(status)) return { reason: 'ended', text: `It has ended ${status}${failure}` }
  if (leasedBy !== null) return { reason: 'running', text: `The worker ${leasedBy} executes it`, ...at(dueAt) }
  if (status === 'WAITING_FOR_TSQ') return { reason: 'needsPerson', text: `It needs a person${failure}` }
  if (process.paused) return { reason: 'paused', text: PAUSED }
  if (queuedAt) return { reason: 'queued', text: `It waits for a free slot of ${domain}/${type}` }
  const until = nextRetryAt ?? waitTimeoutAt
  if (waitingFor) return { reason: 'waiting', text: `It waits for ${waitingFor}`, ...at(until) }
  const name = `${domain}/${type}`
  if (!(await presenceIn(db, 'processes')(name))) {
    return { reason: 'noWorker', text: missingWorker('processes', name) }
  }
  return { reason: 'queued', text: 'It is due and waits for its turn', ...at(dueAt) }
}

const at = (moment: Date | null): { readonly at?: Date } => (moment ? { at: moment } : {})
