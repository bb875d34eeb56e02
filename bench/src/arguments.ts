import { parseArgs } from 'node:util'
import { titleOf } from './harness/report/title.js'
import type { Plan } from './harness/rounds.js'
import type { System, SystemOptions, Workload } from './harness/workload.js'

const options = {
  rounds: { type: 'string', default: '3' },
  items: { type: 'string' },
  concurrency: { type: 'string' },
  system: { type: 'string', multiple: true },
  json: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

export const HELP = `npm run bench -- <workload> [options]

  --rounds N        rounds, each with every system once (3)
  --items N         items per measurement (the workload's own number)
  --concurrency N   instead of the concurrencies that the workload compares
  --system NAME     only systems whose name contains this; may be repeated
  --json            one JSON line per result instead of a table
  --list            the workloads and their systems
  --help            this

Runs on a freshly started embedded PostgreSQL, or on that of DATABASE_URL.`

/** What the command line asks for. */
export type Command =
  | { readonly kind: 'help' }
  | { readonly kind: 'list' }
  | { readonly kind: 'run'; readonly plan: Plan; readonly json: boolean }

/** A command line that cannot be meant: the message says what there is instead. */
export class UsageError extends Error {}

export function readArguments(args: readonly string[], workloads: readonly Workload[]): Command {
  const { values, positionals } = parse(args)
  if (values.help) return { kind: 'help' }
  if (values.list) return { kind: 'list' }
  const workload = chooseWorkload(positionals, workloads)
  const rounds = wholeNumber('rounds', values.rounds)
  const items = values.items === undefined ? workload.items : wholeNumber('items', values.items)
  const systemOptions: SystemOptions =
    values.concurrency === undefined ? {} : { concurrency: wholeNumber('concurrency', values.concurrency) }
  const systems = chooseSystems(workload.systems(systemOptions), values.system ?? [])
  return { kind: 'run', json: values.json, plan: { workload, options: systemOptions, systems, items, rounds } }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    const [problem] = (error instanceof Error ? error.message : String(error)).split('. ')
    const known = Object.keys(options).map((name) => `--${name}`)
    throw new UsageError(`${problem}. The options are ${known.join(', ')}.`, { cause: error })
  }
}

function chooseWorkload([name, ...more]: readonly string[], workloads: readonly Workload[]): Workload {
  const known = `The workloads are: ${workloads.map((workload) => workload.name).join(', ')}.`
  if (name === undefined) throw new UsageError(`Which workload? ${known}`)
  if (more.length > 0) throw new UsageError(`One workload at a time, not also ${more.join(', ')}. ${known}`)
  const found = workloads.find((workload) => workload.name === name)
  if (found === undefined) throw new UsageError(`There is no workload '${name}'. ${known}`)
  return found
}

function chooseSystems(systems: readonly System[], wanted: readonly string[]): readonly System[] {
  for (const name of wanted) {
    if (systems.some((system) => matches(system, name))) continue
    throw new UsageError(`No system is called '${name}'. The systems are: ${systems.map(titleOf).join(', ')}.`)
  }
  return wanted.length === 0 ? systems : systems.filter((system) => wanted.some((name) => matches(system, name)))
}

function matches(system: System, name: string): boolean {
  return titleOf(system).toLowerCase().includes(name.toLowerCase())
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new UsageError(`--${option} is '${text}'. It must be a whole number above 0.`)
}
