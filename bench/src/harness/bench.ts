import { childProcesses } from './child-process.js'
import { createProgress } from './progress.js'
import { jsonLine } from './report/json.js'
import { table } from './report/table.js'
import { resultsOf } from './results.js'
import { type Plan, runRounds } from './rounds.js'
import { startServer } from './server.js'

/** Ctrl-C: everything that was started is stopped by the time this is thrown. */
export class Interrupted extends Error {}

export interface BenchOptions {
  readonly json: boolean
  /** The script of the processes that are measured. */
  readonly child: URL
}

/** One run: a server, all rounds, a report on standard output. */
export async function bench(plan: Plan, { json, child }: BenchOptions): Promise<void> {
  const progress = createProgress(process.stderr)
  const interrupted = new AbortController()
  const interrupt = () => interrupted.abort(new Interrupted())
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  try {
    progress.working('starting PostgreSQL')
    const server = await startServer(progress.line)
    progress.line(`${plan.workload.name} · ${plan.items.toLocaleString('en')} items · ${server.describe}`)
    try {
      const measured = await runRounds(plan, server, childProcesses(child, interrupted.signal), progress)
      const results = resultsOf(plan, measured)
      progress.end()
      if (json) for (const result of results) console.log(jsonLine(result, server.version))
      else
        console.log(
          table(
            results,
            `${plan.workload.name} · ${plan.items.toLocaleString('en')} items · PostgreSQL ${server.version}`,
          ),
        )
    } finally {
      progress.working('stopping')
      await server.stop()
    }
  } catch (error) {
    interrupted.signal.throwIfAborted()
    throw error
  } finally {
    progress.end()
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}
