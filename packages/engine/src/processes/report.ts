import { splitName } from '../kernel/ids/name.js'
import type { Outcome, Reported, ReportedEnd, Reports } from '../kernel/model/index.js'
import { callId } from './history.js'
import type { Incoming, JournalEvent, ProcessWrite, Suspension, WrittenBy } from './queries/write-processes.js'
import type { EndStatus, ProcessStatus } from './states.js'

const ENDS: Readonly<Record<EndStatus, ReportedEnd>> = {
  COMPLETED: 'completed',
  FAILED: 'failed',
  COMPENSATED: 'compensated',
  CANCELLED: 'cancelled',
}

/** Reports committed writes: failed attempts, work that needs a person, ends. */
export function reportWrites(
  reports: Reports,
  writes: readonly ProcessWrite[],
  outcomes: readonly Outcome<Incoming | undefined>[],
): void {
  for (const [place, write] of writes.entries()) {
    const outcome = outcomes[place]
    // Something has come and the process was not suspended: nothing was written.
    if (outcome === undefined || outcome === 'held' || !('done' in outcome) || outcome.done) continue
    reportWrite(reports, write)
  }
}

export function reportWrite(reports: Reports, { events, suspension, by }: ProcessWrite): void {
  if (!by) return
  const { id, type, key } = by.item
  const what = { model: 'processes', ...splitName(type), id, key } as const
  let failed: JournalEvent | undefined
  for (const event of events) {
    const { error, startedAt } = event.detail ?? {}
    // A call that was refused a slot, or never left, used no attempt.
    if (!error || startedAt === undefined) continue
    failed = event
    const { nextAt, at } = event
    reports.attemptFailed(call(what, event), error, nextAt == null ? undefined : { retryInMs: nextAt - at })
  }
  if (suspension) reportRest(reports, failed ? call(what, failed) : what, by, suspension)
}

const call = (what: Reported, { name, occurrence, attempt }: JournalEvent): Reported => ({
  ...what,
  step: callId(name, occurrence),
  attempt: attempt ?? undefined,
})

function reportRest(reports: Reports, what: Reported, { item, now }: WrittenBy, rest: Suspension): void {
  const runMs = now() - item.now
  const times = { runMs, ...(item.epoch === 1 ? { queueMs: item.now - item.startAt } : {}) }
  const end = endOf(rest.status)
  if (end) reports.ended(what, end, { ...times, totalMs: now() - item.createdAt })
  else reports.times(what, times)
  if (rest.status === 'WAITING_FOR_TSQ' && rest.error) reports.needsPerson(what, rest.error)
}

export function endOf(status: ProcessStatus): ReportedEnd | undefined {
  return ENDS[status as EndStatus]
}
