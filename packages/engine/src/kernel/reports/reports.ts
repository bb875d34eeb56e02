import type { Logger } from '../logger.js'
import { type MetricLabels, type Metrics, noMetrics } from '../metrics/metrics.js'

/** The models whose work is reported, as they are called in logs and metrics. */
type ReportedModel = 'commands' | 'processes' | 'workflows' | 'dispatch'

/** Whose counters are raised: those of a definition, never of a single item. */
interface ReportedType {
  readonly model: ReportedModel
  /** Models without domains have none. */
  readonly domain?: string | undefined
  readonly type: string
}

/** One item; its id and key are logged and are no labels of metrics. */
export interface Reported extends ReportedType {
  readonly id: string
  readonly key?: string | null | undefined
  readonly step?: string | undefined
  readonly attempt?: number | undefined
}

interface ReportedFailure {
  readonly code: string
  readonly message: string
  readonly stack?: string | undefined
}

export type ReportedEnd = 'completed' | 'failed' | 'compensated' | 'cancelled'

/** What is known of an item's times, in milliseconds. */
interface ReportedTimes {
  /** From when it was due until a worker claimed it. */
  readonly queueMs?: number | undefined
  /** Of one attempt, or of one execution until it ended or was suspended. */
  readonly runMs?: number | undefined
  /** From its creation until its end. */
  readonly totalMs?: number | undefined
}

/**
 * Logs and counts what happens to work, for all models. Models call it when the change is committed, from the one place
 * where the result of that write arrives: so each is logged and counted once, and never on a replay. A result that was
 * lost may be reported twice.
 */
export interface Reports {
  started(what: ReportedType, count?: number): void
  /** Logged as a warning. */
  attemptFailed(what: Reported, failure: ReportedFailure, next?: { readonly retryInMs: number }): void
  /** The work waits until a person acts. Logged as an error. */
  needsPerson(what: Reported, failure: ReportedFailure): void
  ended(what: ReportedType, end: ReportedEnd, times?: ReportedTimes): void
  times(what: ReportedType, times: ReportedTimes): void
}

/** Log lines carry this name in the field `event`; docs/operations/observability.md lists them. */
type ReportedEvent = 'attempt_failed' | 'needs_person'

export function createReports({ logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics }): Reports {
  const measured = metrics !== noMetrics

  function observe(labels: MetricLabels, { queueMs, runMs, totalMs }: ReportedTimes): void {
    if (queueMs !== undefined) metrics.observe('queue_milliseconds', labels, Math.max(0, queueMs))
    if (runMs !== undefined) metrics.observe('run_milliseconds', labels, Math.max(0, runMs))
    if (totalMs !== undefined) metrics.observe('total_milliseconds', labels, Math.max(0, totalMs))
  }

  return {
    started(what, count = 1) {
      if (measured && count > 0) metrics.count('started', labelsOf(what), count)
    },
    attemptFailed(what, failure, next) {
      if (measured) metrics.count('attempts_failed', labelsOf(what))
      const attempt = what.attempt === undefined ? 'an attempt' : `attempt ${what.attempt}`
      const then = next === undefined ? {} : { retryInMs: Math.round(next.retryInMs) }
      logger.warn(
        { ...fieldsOf('attempt_failed', what, failure), ...then },
        `${attempt} of ${nameOf(what)} failed: ${firstLine(failure.message)}`,
      )
    },
    needsPerson(what, failure) {
      if (measured) metrics.count('needs_person', labelsOf(what))
      logger.error(
        fieldsOf('needs_person', what, failure),
        `${nameOf(what)} needs a person (${failure.code}): ${firstLine(failure.message)}`,
      )
    },
    ended(what, end, times) {
      if (!measured) return
      const labels = labelsOf(what)
      metrics.count(end, labels)
      if (times) observe(labels, times)
    },
    times(what, times) {
      if (measured) observe(labelsOf(what), times)
    },
  }
}

/** For tools that run parts of a model without an installation. */
export const noReports: Reports = { started() {}, attemptFailed() {}, needsPerson() {}, ended() {}, times() {} }

const labelsOf = ({ model, domain, type }: ReportedType): MetricLabels =>
  domain === undefined ? { model, type } : { model, domain, type }

function fieldsOf(event: ReportedEvent, what: Reported, { code, message, stack }: ReportedFailure): object {
  const { model, domain, type, id, key, step, attempt } = what
  return {
    event,
    model,
    ...(domain === undefined ? {} : { domain }),
    type,
    id,
    ...(key == null ? {} : { key }),
    ...(step === undefined ? {} : { step }),
    ...(attempt === undefined ? {} : { attempt }),
    code,
    error: message,
    ...(stack === undefined ? {} : { stack }),
  }
}

function nameOf({ domain, type, step }: Reported): string {
  const name = domain === undefined ? type : `${domain}/${type}`
  return step === undefined ? name : `${step} of ${name}`
}

function firstLine(message: string): string {
  const end = message.indexOf('\n')
  return end === -1 ? message : message.slice(0, end)
}
