import { type Better, bestRival, median, type Role } from './comparison.js'
import type { Measurement } from './measure.js'
import { titleOf } from './report/title.js'
import type { Plan, RoundMeasurement } from './rounds.js'
import type { System } from './workload.js'

/** One system over all rounds: medians, and how it compares. */
export interface Result extends RoundMeasurement {
  readonly workload: string
  readonly unit: string
  readonly better: Better
  readonly system: System
  readonly role: Role
  /** The value divided by that of the best peer, or of the ceiling where no peer takes part; null where neither does. */
  readonly ratio: number | null
  /** Whom that is. */
  readonly comparedWith: string | null
  readonly rounds: readonly RoundMeasurement[]
}

export function resultsOf(plan: Plan, measured: ReadonlyMap<System, readonly RoundMeasurement[]>): readonly Result[] {
  const { name: workload, unit, better = 'higher' } = plan.workload
  const medians = [...measured].map(([system, rounds]) => ({
    system,
    role: system.role,
    baseline: system.baseline ?? false,
    rounds,
    ...medianOf(rounds),
  }))
  return medians.map((result) => {
    const rival = bestRival(
      medians.filter((other) => other.system.group === result.system.group),
      better,
    )
    return {
      workload,
      unit,
      better,
      ...result,
      ratio: rival === undefined ? null : result.value / rival.value,
      comparedWith: rival === undefined ? null : titleOf(rival.system),
    }
  })
}

function medianOf(rounds: readonly RoundMeasurement[]): RoundMeasurement {
  const of = (pick: (round: RoundMeasurement) => number) => median(rounds.map(pick)) ?? 0
  /** A cost that one round does not know, none knows: it depends on the server. */
  const known = (pick: (round: Measurement) => number | null) =>
    median(rounds.map(pick).filter((cost) => cost !== null))
  return {
    value: of((round) => round.value),
    details: Object.fromEntries(
      Object.keys(rounds[0]?.details ?? {}).map((name) => [name, of((round) => round.details[name] ?? 0)]),
    ),
    walBytesPerItem: of((round) => round.walBytesPerItem),
    statementsPerItem: known((round) => round.statementsPerItem),
    nodeCpuPerItem: of((round) => round.nodeCpuPerItem),
    postgresCpuPerItem: known((round) => round.postgresCpuPerItem),
    peakRssMb: of((round) => round.peakRssMb),
    yardstick: of((round) => round.yardstick),
  }
}
