import type { Children } from './child-process.js'
import { rotated } from './comparison.js'
import type { Measurement } from './measure.js'
import type { Progress } from './progress.js'
import { figure } from './report/figure.js'
import { titleOf } from './report/title.js'
import type { BenchServer } from './server.js'
import type { System, SystemOptions, Workload } from './workload.js'
import { yardstick } from './yardstick.js'

export interface Plan {
  readonly workload: Workload
  readonly options: SystemOptions
  /** Those of the workload's systems that take part. */
  readonly systems: readonly System[]
  readonly items: number
  readonly rounds: number
}

/** One system in one round, with how fast the machine was in it. */
export interface RoundMeasurement extends Measurement {
  readonly yardstick: number
}

/** All rounds of all systems, interleaved. The answer has the measurements of each system in the order of the rounds. */
export async function runRounds(
  plan: Plan,
  server: BenchServer,
  children: Children,
  progress: Progress,
): Promise<ReadonlyMap<System, readonly RoundMeasurement[]>> {
  const measured = new Map<System, RoundMeasurement[]>(plan.systems.map((system) => [system, []]))
  for (let round = 0; round < plan.rounds; round += 1) {
    const heading = `round ${round + 1}/${plan.rounds}`
    progress.working(`${heading} · yardstick`)
    const commits = await yardstick(server.controlConnectionString)
    progress.line(`${heading} · yardstick: ${Math.round(commits).toLocaleString('en')} single-row commits/s`)
    for (const system of rotated(plan.systems, round)) {
      const title = `${heading} · ${titleOf(system)}`
      const measurement = await runOne(plan, system, server, children, (phase) =>
        progress.working(`${title} · ${phase}`),
      )
      measured.get(system)?.push({ ...measurement, yardstick: commits })
      progress.line(`${title}: ${figure(measurement.value)} ${plan.workload.unit}`)
    }
  }
  return measured
}

async function runOne(
  { workload, options, items }: Plan,
  system: System,
  server: BenchServer,
  children: Children,
  phase: (name: string) => void,
): Promise<Measurement> {
  const connectionString = await server.createDatabase()
  const { controlConnectionString, countsStatements } = server
  const place = workload.systems(options).findIndex((candidate) => titleOf(candidate) === titleOf(system))
  const task = { connectionString, items: Math.ceil(items * (system.share ?? 1)) }
  const order = { workload: workload.name, options, system: place, task }
  try {
    phase('preparing')
    await children.prepare(order)
    await server.settle(connectionString)
    phase('running')
    return await children.measure({
      ...order,
      observed: { controlConnectionString, connectionString, countsStatements },
    })
  } catch (error) {
    throw new Error(`${titleOf(system)} failed: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  } finally {
    await server.dropDatabase(connectionString)
  }
}
