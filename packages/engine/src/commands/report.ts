import type { Reports } from '../kernel/model/index.js'
import type { AttemptEnd } from './queries/finish-commands.js'
import type { ReceivedCommand } from './queries/receive-commands.js'

/** Reports the end of an attempt, once it is committed. */
export function reportAttempt(
  reports: Reports,
  domain: string,
  command: ReceivedCommand,
  end: AttemptEnd | { readonly outcome: 'COMPLETED' },
  runMs: number,
): void {
  const { type, commandId: id, epoch: attempt, waitedMs } = command
  const what = { model: 'commands', domain, type, id, attempt } as const
  const times = { runMs, ...(attempt === 1 ? { queueMs: waitedMs } : {}) }
  const totalMs = waitedMs + runMs
  if ('failure' in end) {
    reports.attemptFailed(what, end.failure, end.outcome === 'RETRY' ? { retryInMs: end.delayMs } : undefined)
  }
  if (end.outcome === 'COMPLETED') reports.ended(what, 'completed', { ...times, totalMs })
  else if (end.outcome === 'FAILED') reports.ended(what, 'failed', { ...times, totalMs })
  else reports.times(what, times)
  if (end.outcome === 'TSQ') reports.needsPerson(what, end.failure)
}
