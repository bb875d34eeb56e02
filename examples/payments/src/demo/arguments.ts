import { parseArgs } from 'node:util'

export interface DemoOptions {
  readonly payments: number
  readonly seed: string
  /** Kills its own workers now and then. */
  readonly chaos: boolean
  /** Ends when all payments are settled. */
  readonly once: boolean
  readonly port: number
  readonly workers: number
}

export const usage = `The payments demo of Holdfast.

  npm start -- [options]

  --payments <n>  how many payments to make up, in both models and a scheduled window (300)
  --seed <text>   what happens to them is rolled from this (42)
  --chaos         kill -9 one of the demo's own workers every few seconds
  --once          end when all are settled; the exit code tells whether the books balance
  --port <n>      of the REST endpoints (4180; any free one where it is taken)
  --workers <n>   worker processes (2)
  --help          this text

Ctrl-C drains and stops everything; the next start goes on where this one stopped.
DATABASE_URL names a PostgreSQL of your own; otherwise one from npm is started.`

const known = {
  payments: { type: 'string', default: '300' },
  seed: { type: 'string', default: '42' },
  chaos: { type: 'boolean', default: false },
  once: { type: 'boolean', default: false },
  port: { type: 'string', default: '4180' },
  workers: { type: 'string', default: '2' },
  help: { type: 'boolean', default: false },
} as const

/** The parsed command line; the text of an error if it is invalid. */
export function readArguments(args: readonly string[]): DemoOptions | 'help' | { readonly problem: string } {
  try {
    const { values } = parseArgs({ args: [...args], options: known, allowPositionals: false })
    if (values.help) return 'help'
    return {
      payments: wholeNumber('payments', values.payments, 1, 100_000),
      seed: values.seed,
      chaos: values.chaos,
      once: values.once,
      port: wholeNumber('port', values.port, 0, 65_535),
      workers: wholeNumber('workers', values.workers, 1, 20),
    }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= least && value <= most) return value
  throw new Error(`--${name} must be a whole number from ${least} to ${most}, not "${text}"`)
}
