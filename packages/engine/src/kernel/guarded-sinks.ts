import { type Logger, silentLogger } from './logger.js'
import { type Metrics, noMetrics } from './metrics/metrics.js'
import { formatLine } from './stderr-logger.js'

/**
 * The user's logger and metrics sink, so that a failure of theirs reaches no caller. They are called between two
 * statements, in timers and in loops: an error thrown there would end a worker, stop a loop, or fail a `send` that is
 * committed and that its caller would then repeat. `holdfast()` wraps both once; the rest of the engine calls them without
 * a guard. What they throw, and a promise of theirs that rejects, is written to stderr, once a minute at most.
 */

const QUIET_MS = 60_000

interface Surroundings {
  readonly write: (line: string) => void
  readonly now: () => number
}

const ofThisProcess: Surroundings = {
  write: (line) => process.stderr.write(line),
  now: () => performance.now(),
}

/** A sink whose failures reach no caller. Nothing is allocated for a call that succeeds. */
export function guardedMetrics(metrics: Metrics, surroundings = ofThisProcess): Metrics {
  // Compared by identity: code that measures only for a sink checks for this one.
  if (metrics === noMetrics) return metrics
  const failed = createFailureReport('the metrics sink', surroundings)
  return {
    count(name, labels, by) {
      try {
        watch(metrics.count(name, labels, by), failed)
      } catch (error) {
        failed(error)
      }
    },
    observe(name, labels, value) {
      try {
        watch(metrics.observe(name, labels, value), failed)
      } catch (error) {
        failed(error)
      }
    },
    gauge(name, labels, value) {
      try {
        watch(metrics.gauge(name, labels, value), failed)
      } catch (error) {
        failed(error)
      }
    },
  }
}

/** A logger whose failures reach no caller. */
export function guardedLogger(logger: Logger, surroundings = ofThisProcess): Logger {
  if (logger === silentLogger) return logger
  const failed = createFailureReport('the logger', surroundings)
  const guarded = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      watch(logger[level](fields, message), failed)
    } catch (error) {
      failed(error)
    }
  }
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') }
}

/** The types say `void`, which an asynchronous function satisfies. */
function watch(answer: unknown, failed: (error: unknown) => void): void {
  if (typeof answer !== 'object' || answer === null) return
  if ('then' in answer && typeof answer.then === 'function') Promise.resolve(answer).catch(failed)
}

function createFailureReport(what: string, { write, now }: Surroundings): (error: unknown) => void {
  let toldAt = Number.NEGATIVE_INFINITY
  let failures = 0
  return (error) => {
    failures += 1
    const at = now()
    if (at - toldAt < QUIET_MS) return
    toldAt = at
    const fields = { failures }
    failures = 0
    try {
      write(`${formatLine(new Date(), 'ERROR', fields, `${what} threw: ${messageOf(error)}`)}\n`)
    } catch {
      // Neither the sink nor stderr works: the failure cannot be reported.
    }
  }
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error)
  } catch {
    return 'an error that cannot be read'
  }
}
