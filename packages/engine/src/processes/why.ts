import type { HoldfastError } from '../kernel/errors.js'
import { missingWorker, type Why } from '../kernel/model/index.js'
import type { Circumstances } from './queries/find-circumstances.js'
import type { ProcessRecord } from './queries/find-processes.js'
import { hasEnded } from './states.js'

/** Why a process does not continue at the moment, or how it has ended. Returns the first reason that holds. */
export function whyOf(process: ProcessRecord, circumstances: Circumstances): Why {
  const { status, error, leasedBy, dueAt, endedAt, waitingFor } = process
  const failed = error ? ` with ${error.code}: ${withoutStop(error.message)}` : ''
  if (hasEnded(status)) {
    return { reason: 'ended', text: `It ended ${status}${endedAt ? ` at ${endedAt.toISOString()}` : ''}${failed}.` }
  }
  if (leasedBy !== null) {
    const lease = dueAt ? `, whose lease ends at ${dueAt.toISOString()}` : ''
    return { reason: 'running', text: `It is running on worker ${leasedBy}${lease}.`, ...at(dueAt) }
  }
  if (status === 'WAITING_FOR_TSQ') {
    const step = waitingFor ? ` at ${waitingFor}` : ''
    const what = error?.code === 'COMMAND_IN_TROUBLESHOOTING' ? 'that command' : 'it'
    return { reason: 'needsPerson', text: `It failed for good${step}${failed}; retry, complete or cancel ${what}.` }
  }
  return (
    paused(circumstances) ??
    dueLater(process, circumstances) ??
    waiting(process, circumstances) ??
    due(process, circumstances)
  )
}

function paused({ pause }: Circumstances): Why | undefined {
  if (!pause) return undefined
  const { subject, actor, reason, pausedAt } = pause
  const text = `The ${subject.replace(':', ' ')} was paused by ${actor} at ${iso(pausedAt)}: ${withoutStop(reason)}.`
  return { reason: 'paused', text }
}

/** It continues at a known time: its start, its next attempt, the end of a sleep. */
function dueLater(process: ProcessRecord, { now, call }: Circumstances): Why | undefined {
  const { status, nextRetryAt, dueAt, waitingFor } = process
  if (status === 'WAITING_FOR_RETRY' && nextRetryAt && nextRetryAt > now) {
    const failed = call?.code ? ` after ${call.code}: ${withoutStop(call.message ?? '')}` : ''
    const next = `${waitingFor} is tried again at ${nextRetryAt.toISOString()}`
    if (call?.code === RATE_LIMITED) {
      return { reason: 'rateLimited', text: `The rate limit had no slot; ${next}.`, at: nextRetryAt }
    }
    return { reason: 'notDue', text: `The step ${next}${failed}.`, at: nextRetryAt }
  }
  if (status === 'PENDING' && dueAt && dueAt > now) {
    return { reason: 'notDue', text: `It is to start at ${dueAt.toISOString()}.`, at: dueAt }
  }
  return undefined
}

/** It waits for something from outside: a response, a sleep, a command, a child. */
function waiting({ waitingFor, waitTimeoutAt, dueAt }: ProcessRecord, { now, call }: Circumstances): Why | undefined {
  if (!waitingFor || (dueAt && dueAt <= now)) return undefined
  const since = call ? ` since ${iso(call.at)}` : ''
  const until = waitTimeoutAt ?? dueAt
  const limit = until ? `, until ${until.toISOString()} at the latest` : ''
  const { started } = call ?? {}
  if (started?.needsPerson) {
    const failed = started.code ? ` with ${started.code}` : ''
    const text = `It waits for ${started.what} ${started.id} of ${waitingFor}${since}, which failed for good${failed} and needs a person.`
    return { reason: 'waiting', text, ...at(until) }
  }
  const what = started ? `${started.what} ${started.id} of ${waitingFor}, which is ${started.status},` : waitingFor
  return { reason: 'waiting', text: `It waits for ${what}${since}${limit}.`, ...at(until) }
}

/** Why no live worker can continue with it, if none can. */
export function lackingWorker(process: ProcessRecord, { liveVersion }: Circumstances): string | undefined {
  const { domain, type, version } = process
  const name = `${domain}/${type}`
  if (liveVersion === null) return missingWorker('processes', name)
  if (liveVersion >= version) return undefined
  return `it is of version ${version} of ${name}, and live workers have only version ${liveVersion} or older: start one of version ${version}`
}

/** It could continue, and no worker has claimed it. */
function due(process: ProcessRecord, circumstances: Circumstances): Why {
  const { domain, type, queuedAt, dueAt } = process
  const lacking = lackingWorker(process, circumstances)
  if (lacking) return { reason: 'noWorker', text: `It is due, and ${lacking}.` }
  if (queuedAt) {
    const text = `It has waited since ${queuedAt.toISOString()} for one of the executions that the concurrency of ${domain}/${type} allows.`
    return { reason: 'queued', text }
  }
  const since = dueAt ? ` since ${dueAt.toISOString()}` : ''
  return { reason: 'queued', text: `It has been due${since} and waits for a worker to claim it.` }
}

/** Recorded as the code of the failed attempt. */
const RATE_LIMITED = 'HF_RATE_LIMITED' satisfies HoldfastError['code']

const at = (moment: Date | null): { readonly at?: Date } => (moment ? { at: moment } : {})
const iso = (text: string): string => new Date(text).toISOString()
const withoutStop = (text: string): string => text.replace(/\.$/, '')
