import type { Why } from '../kernel/model/why.js'
import type { ItemStanding } from './queries/read-standing.js'

interface Standing extends ItemStanding {
  /** Whether a live worker has its definition. */
  readonly live: boolean
}

/** Why an item has not been executed yet, in one sentence; pure, so that each reason has its test without a database. */
export function whyOf(standing: Standing): Why {
  switch (standing.status) {
    case 'COMPLETED':
    case 'FAILED':
      return whyEnded(standing)
    case 'DEAD_LETTER':
      return {
        reason: 'needsPerson',
        text: `it is a dead letter after ${attempts(standing)}: ${standing.lastError}; retry, complete or cancel it`,
      }
    case 'CLAIMED':
      return whyClaimed(standing)
    case 'DISPATCHED':
      return whyDispatched(standing)
    case 'READY':
      return whyReady(standing)
  }
}

function whyEnded({ status, completedAt, lastError }: ItemStanding): Why {
  const when = completedAt ? ` at ${completedAt.toISOString()}` : ''
  return { reason: 'ended', text: `it ended ${status}${when}${status === 'FAILED' ? `: ${lastError}` : ''}` }
}

/** Only for targets elsewhere: it was claimed, and the start is not on record. */
function whyClaimed({ claimedAt, lastError, checkAt }: ItemStanding): Why {
  const at = checkAt ? { at: checkAt } : {}
  if (lastError === null) {
    return { reason: 'running', text: `it has been given to its target since ${claimedAt?.toISOString()}`, ...at }
  }
  const asked = checkAt ? ` at ${checkAt.toISOString()}` : ''
  const text = `its start ended with ${lastError}, so the target is asked${asked} whether it was started`
  return { reason: 'waiting', text, ...at }
}

function whyDispatched({ dispatchedAt, executionId, checkAt, execution }: ItemStanding): Why {
  const since = `it was dispatched at ${dispatchedAt?.toISOString()} as ${executionId}`
  if (execution === null) {
    const asked = checkAt ? `; its target is asked about it at ${checkAt.toISOString()}` : ''
    return { reason: 'running', text: `${since}, and its target has not reported its end${asked}` }
  }
  return { reason: 'running', text: `${since}, which is ${execution.status}` }
}

function whyReady(standing: Standing): Why {
  const { enabled, switchedOff, trippedAt, tripReason, dueAt, now, live, itemType } = standing
  if (!enabled) {
    const who = switchedOff ? ` by ${switchedOff.actor} at ${switchedOff.at}: ${switchedOff.reason}` : ''
    return { reason: 'paused', text: `${itemType} is switched off${who}` }
  }
  if (trippedAt) {
    const text = `${itemType} has stopped by itself at ${trippedAt.toISOString()}: ${tripReason}; repair that and resume it`
    return { reason: 'needsPerson', text }
  }
  if (dueAt && dueAt > now) {
    const after = standing.retryCount > 0 ? `, after ${attempts(standing)}: ${standing.lastError}` : ''
    return { reason: 'notDue', text: `it is due at ${dueAt.toISOString()}${after}`, at: dueAt }
  }
  if (!live) {
    const text = `no live worker has ${itemType}: register it with hf.register and start a worker with hf.run`
    return { reason: 'noWorker', text }
  }
  return whyQueued(standing)
}

function whyQueued({ before, rateLimitKey, limitPerSecond, batchSize, interval, cycleError }: ItemStanding): Why {
  const failed = cycleError === null ? '' : `; the last cycle failed: ${cycleError}`
  const ahead = `${before > MOST_COUNTED ? `more than ${MOST_COUNTED}` : before} items are before it`
  if (rateLimitKey !== null) {
    const rate = limitPerSecond === null ? 'which is gone' : `${limitPerSecond} per second`
    return { reason: 'rateLimited', text: `it waits for the rate limit ${rateLimitKey} (${rate}); ${ahead}${failed}` }
  }
  const batches = interval === 0 ? `in batches of ${batchSize}` : `${batchSize} every ${interval / 1_000} s`
  return { reason: 'queued', text: `it is due, and ${ahead}, released ${batches}${failed}` }
}

const attempts = ({ retryCount }: ItemStanding) => (retryCount === 1 ? '1 attempt' : `${retryCount} attempts`)

/** So many items before one are counted, and no more. */
export const MOST_COUNTED = 10_000
