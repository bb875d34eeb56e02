import type { Codec } from './kernel/codec/codec.js'
import type { DatabaseOptions } from './kernel/database/options.js'
import type { Duration } from './kernel/duration/duration.js'
import { guardedLogger } from './kernel/guarded-sinks.js'
import { type Logger, silentLogger } from './kernel/logger.js'
import type { Metrics } from './kernel/metrics/metrics.js'
import { stderrLogger } from './kernel/stderr-logger.js'
import { anything, boolean, declareOptions, duration, type OptionRule } from './kernel/validation/declared.js'
import { describe } from './kernel/validation/describe.js'
import { invalidOption } from './kernel/validation/invalid-option.js'
import { integerOption } from './kernel/validation/options.js'

export interface HoldfastOptions extends Omit<DatabaseOptions, 'faults' | 'logger'> {
  /** Bring the schema up to date when opening (default). Otherwise it is only checked. */
  readonly migrate?: boolean
  /** How values become JSON: registered types, another size limit, encryption. */
  readonly codec?: Codec
  /**
   * Where failures and what needs a person are logged (pino-compatible). Default: warnings and errors go to stderr; `false`
   * silences them.
   */
  readonly logger?: Logger | false
  readonly metrics?: Metrics
  /**
   * How long the engine waits for code of yours that was told to stop (its time was up, or its process or instance was
   * cancelled). Until then neither the next attempt nor a compensation begins, so that neither runs beside the call that it
   * follows. Raise it if your calls need longer to stop. Default: 30 s.
   */
  readonly abortGrace?: Duration
  /**
   * How long the engine asks again, in growing intervals, while an `inquire` of yours fails or returns `'unknown'`, before a
   * person has to find out. Raise it if the other side may be down, or show what was done late. Default: 30 s.
   */
  readonly inquireFor?: Duration
  /**
   * False leaves every process that is started here to a worker. Otherwise `hf.start` runs a process in this program until it completes or
   * waits, if its definition is registered here. Set it in programs that must not make the calls of your processes. Default: true.
   */
  readonly immediate?: boolean
}

/** What the engine calls later, in the middle of its work, is checked when the installation is opened. */
const methods =
  (names: readonly string[], otherwise = ''): OptionRule<void> =>
  (where, option, given) => {
    if (given === undefined) return
    const has = (name: string) => typeof (given as Record<string, unknown> | null)?.[name] === 'function'
    if (names.every(has)) return
    const list = `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
    throw invalidOption(
      where,
      option,
      `must be an object with the functions ${list}${otherwise}, not ${describe(given)}`,
    )
  }

const codec: OptionRule<void> = (where, option, given) => {
  methods(['encode', 'decode'])(where, option, given)
  const maxBytes = (given as Codec | undefined)?.maxBytes
  integerOption(where, 'codec.maxBytes', maxBytes, { min: 1, default: undefined })
}

/** How long is waited for code of the user; also of an installation that tests assemble by themselves. */
export const patience = {
  abortGrace: duration({ max: '1d', default: '30s' }),
  inquireFor: duration({ min: 0, max: '1d', default: '30s' }),
}

/** The options of the connection are checked where it is opened. */
export const checkHoldfastOptions = declareOptions({
  connectionString: anything,
  pool: anything,
  directConnectionString: anything,
  schema: anything,
  prepare: anything,
  poolSize: anything,
  statementTimeout: anything,
  connectTimeout: anything,
  applicationName: anything,
  migrate: boolean({ default: true }),
  immediate: boolean({ default: true }),
  ...patience,
  metrics: methods(['count', 'observe', 'gauge']),
  codec,
  logger: (where, option, given) => {
    if (given !== false) methods(['debug', 'info', 'warn', 'error'], ', or false')(where, option, given)
  },
} satisfies Record<keyof HoldfastOptions, OptionRule<unknown>>)

export function loggerOf(given: HoldfastOptions['logger']): Logger {
  return given === false ? silentLogger : guardedLogger(given ?? stderrLogger)
}
