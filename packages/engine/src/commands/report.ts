import type { Reports } from '../kernel/reports/reports.js'
import type { AttemptEnd } from './queries/finish-commands.js'
import type { ReceivedCommand } from './queries/receive-commands.js'

/** Tells what an attempt came to, when that is committed (K-21). */
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
  if (end.outcome === 'COMPLETED') return reports.ended(what, 'completed', { ...times, totalMs })
  if (!('failure' in end)) return
  reports.attemptFailed(what, end.failure, end.outcome === 'RETRY' ? { retryInMs: end.delayMs } : undefined)
  if (end.outcome === 'FAILED') return reports.ended(what, 'failed', { ...times, totalMs })
  reports.times(what, times)
  if (end.outcome === 'TSQ') reports.needsPerson(what, end.failure)
}
