import type { Logger, MetricLabels, Metrics } from 'holdfast'

export interface LogLine {
  readonly level: 'warn' | 'error'
  readonly message: string
  readonly [field: string]: unknown
}

/** A logger and metrics that keep what they are told. */
export function recording() {
  const lines: LogLine[] = []
  const counts = new Map<string, number>()
  const observed = new Map<string, number[]>()
  const gauges = new Map<string, number>()
  const labels: MetricLabels[] = []
  const keyOf = (name: string, given: MetricLabels) => {
    labels.push(given)
    const { model, domain, type } = given
    return [name, model, domain, type].filter((part) => part !== undefined).join(' ')
  }
  const log = (level: LogLine['level']) => (fields: object, message: string) =>
    void lines.push({ ...fields, level, message })
  const logger: Logger = { debug() {}, info() {}, warn: log('warn'), error: log('error') }
  const metrics: Metrics = {
    count(name, given, by = 1) {
      const key = keyOf(name, given)
      counts.set(key, (counts.get(key) ?? 0) + by)
    },
    observe(name, given, value) {
      const key = keyOf(name, given)
      observed.set(key, [...(observed.get(key) ?? []), value])
    },
    gauge: (name, given, value) => void gauges.set(keyOf(name, given), value),
  }
  return {
    logger,
    metrics,
    labels,
    gauges,
    /** The log lines of K-21 about one item. */
    about: (id: string) => lines.filter((line) => line.id === id && line.event !== undefined),
    lines,
    count: (name: string) => counts.get(name) ?? 0,
    observed: (name: string) => observed.get(name) ?? [],
  }
}
