import { missingWorker, type Why } from '../kernel/model/index.js'
import type { OwnExecution } from './queries/operate-items.js'
import type { Act, ItemStanding } from './queries/read-standing.js'

/**
 * Why an item has not been executed yet, in one sentence. Pure: `queries/read-standing.ts` reads everything that decides it in one
 * statement. The first reason that holds is returned, in the order in which an operator would have to deal with them. `execution` is
 * what the process or workflow of a dispatched item says of itself.
 */
export function whyOf(standing: ItemStanding, execution?: Why): Why {
  switch (standing.status) {
    case 'COMPLETED':
    case 'FAILED':
      return whyEnded(standing)
    case 'DEAD_LETTER': {
      const text = `It is a dead letter after ${attempts(standing)}: ${standing.lastError}. Retry, complete or cancel it.`
      return { reason: 'needsPerson', text }
    }
    case 'CLAIMED':
      return whyClaimed(standing)
    case 'DISPATCHED':
      return whyDispatched(standing, execution)
    case 'READY':
      return whyReady(standing)
  }
}

function whyEnded({ status, completedAt, lastError }: ItemStanding): Why {
  const when = completedAt ? ` at ${completedAt.toISOString()}` : ''
  return { reason: 'ended', text: `It ended ${status}${when}${status === 'FAILED' ? `: ${lastError}` : ''}.` }
}

/** Only for remote targets: it was claimed, and no start is on record. */
function whyClaimed({ claimedAt, lastError, checkAt }: ItemStanding): Why {
  const at = checkAt ? { at: checkAt } : {}
  if (lastError === null) {
    return { reason: 'running', text: `Its target was asked to start it at ${claimedAt?.toISOString()}.`, ...at }
  }
  const asked = checkAt ? ` at ${checkAt.toISOString()}` : ''
  const text = `Its start ended with ${lastError}, so the target is asked${asked} whether it was started. If you know: complete it, or retry it with notDone.`
  return { reason: 'waiting', text, ...at }
}

function whyDispatched(standing: ItemStanding, execution: Why | undefined): Why {
  const { dispatchedAt, executionId, checkAt, enabled } = standing
  const since = `It was dispatched at ${dispatchedAt?.toISOString()} as ${executionId}`
  if (standing.execution === null) {
    const asked = checkAt ? `; its target is asked about it at ${checkAt.toISOString()}` : ''
    const text = `${since}, and its target has not reported its end${asked}.`
    return { reason: 'running', text, ...(checkAt ? { at: checkAt } : {}) }
  }
  if (standing.execution.held && !enabled) {
    return { reason: 'paused', text: `${since} and has not begun: ${whySwitchedOff(standing)}` }
  }
  const begins = new Date(standing.execution.startAt ?? 0)
  if (begins > standing.now) {
    return { reason: 'notDue', text: `${since}, to begin at ${begins.toISOString()}.`, at: begins }
  }
  // It may have ended between the two reads: then the item ends with it.
  if (execution === undefined) return { reason: 'running', text: `${since}.` }
  const help = execution.reason === 'needsPerson' ? ` ${actOn(standing.execution)}` : ''
  return { ...execution, text: `${since}. ${execution.text}${help}` }
}

/** Of a dispatched item only `cancel` works; what else its execution needs is done there. */
function actOn({ model, type, id }: OwnExecution): string {
  const what = model === 'processes' ? 'process' : 'workflow'
  return `That is done on the ${what} ${type} ${id}, by its handle or with hf.trouble, and not on the item, which ends with it.`
}

function whyReady(standing: ItemStanding): Why {
  const { enabled, pause, trippedAt, tripReason, dueAt, now, live, itemType } = standing
  if (!enabled) return { reason: 'paused', text: whySwitchedOff(standing) }
  if (pause) return { reason: 'paused', text: `${pause.subject} was paused${byWhom(pause)}.` }
  if (trippedAt) {
    const text = `${itemType} stopped by itself at ${trippedAt.toISOString()}: ${tripReason}. Repair that and resume it.`
    return { reason: 'needsPerson', text }
  }
  if (dueAt && dueAt > now) {
    const after = standing.retryCount > 0 ? `, after ${attempts(standing)}: ${standing.lastError}` : ''
    return { reason: 'notDue', text: `It is due at ${dueAt.toISOString()}${after}.`, at: dueAt }
  }
  if (!live) return { reason: 'noWorker', text: `${missingWorker('dispatch', itemType)}.` }
  return whyQueued(standing)
}

const whySwitchedOff = ({ itemType, switchedOff }: ItemStanding) =>
  `${itemType} was switched off${switchedOff ? byWhom(switchedOff) : ''}.`

const byWhom = ({ at, actor, reason }: Act) => ` at ${new Date(at).toISOString()} by ${actor}: ${reason}`

function whyQueued({ before, rateLimitKey, limitPerSecond, batchSize, interval, cycleError }: ItemStanding): Why {
  const failed = cycleError === null ? '' : `; the last cycle failed: ${cycleError}`
  const ahead = before === 1 ? '1 item is before it' : `${counted(before)} items are before it`
  if (rateLimitKey !== null) {
    const rate = limitPerSecond === null ? 'which is gone' : `${limitPerSecond} per second`
    return { reason: 'rateLimited', text: `It waits for the rate limit ${rateLimitKey} (${rate}); ${ahead}${failed}.` }
  }
  const batches = interval === 0 ? `in batches of ${batchSize}` : `${batchSize} every ${interval / 1_000} s`
  return { reason: 'queued', text: `It is due, and items are released ${batches}; ${ahead}${failed}.` }
}

const counted = (before: number) => (before > MOST_COUNTED ? `more than ${MOST_COUNTED}` : before)
const attempts = ({ retryCount }: ItemStanding) => (retryCount === 1 ? '1 attempt' : `${retryCount} attempts`)

/** How many items before one are counted at most. */
export const MOST_COUNTED = 10_000
