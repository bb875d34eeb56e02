import { HELP, readArguments, UsageError } from './arguments.js'
import { bench, Interrupted } from './harness/bench.js'
import { titleOf } from './harness/report/title.js'
import { workloads } from './workloads/index.js'

const EXIT = { done: 0, failed: 1, usage: 2, interrupted: 130 } as const

async function main(args: readonly string[]): Promise<number> {
  try {
    const command = readArguments(args, workloads)
    if (command.kind === 'help') console.log(HELP)
    else if (command.kind === 'list') console.log(list())
    else await bench(command.plan, { json: command.json, child: new URL('./child.js', import.meta.url) })
    return EXIT.done
  } catch (error) {
    if (error instanceof Interrupted) return EXIT.interrupted
    console.error(error instanceof Error ? error.message : error)
    if (!(error instanceof UsageError)) return EXIT.failed
    console.error(`\n${HELP}`)
    return EXIT.usage
  }
}

function list(): string {
  return workloads
    .map(({ name, measures, systems }) => {
      const titles = systems({}).map((system) => `    ${titleOf(system)} · ${system.role} · ${system.version}`)
      return [`${name}: ${measures}`, ...titles].join('\n')
    })
    .join('\n\n')
}

process.exitCode = await main(process.argv.slice(2))
