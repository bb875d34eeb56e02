import type { Result } from '../results.js'
import type { RoundMeasurement } from '../rounds.js'

/** One line per result, for programs. The names of the fields are a promise: docs/operations/benchmarks.md lists them. */
export function jsonLine(result: Result, postgres: string): string {
  const { workload, system, unit, better, ratio, comparedWith, rounds } = result
  return JSON.stringify({
    workload,
    system: system.name,
    role: system.role,
    version: system.version,
    config: system.config,
    ...found(result),
    unit,
    better,
    ratio_to_best_peer: ratio === null ? null : rounded(ratio, 3),
    compared_with: comparedWith,
    ...costs(result),
    rounds: rounds.map((round) => ({ ...found(round), ...costs(round) })),
    postgres,
  })
}

function found({ value, details }: RoundMeasurement) {
  return {
    value: rounded(value, 3),
    ...Object.fromEntries(Object.entries(details).map(([name, more]) => [name, rounded(more, 3)])),
  }
}

function costs(measurement: RoundMeasurement) {
  const { walBytesPerItem, statementsPerItem, nodeCpuPerItem, postgresCpuPerItem, peakRssMb } = measurement
  return {
    wal_bytes_per_item: rounded(walBytesPerItem, 1),
    statements_per_item: statementsPerItem === null ? null : rounded(statementsPerItem, 5),
    node_cpu_us_per_item: rounded(nodeCpuPerItem, 2),
    postgres_cpu_us_per_item: postgresCpuPerItem === null ? null : rounded(postgresCpuPerItem, 2),
    peak_rss_mb: rounded(peakRssMb, 1),
    yardstick_commits_per_s: rounded(measurement.yardstick, 0),
  }
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
