import type { Duration } from '../duration/duration.js'
import { type Logger, silentLogger } from '../logger.js'
import { invalidOption } from '../validation/invalid-option.js'
import { choiceOption, durationOption, integerOption, textOption } from '../validation/options.js'
import type { DriverPool } from './driver.js'
import { checkSchemaName } from './schema-name.js'
import type { Faults } from './session.js'

export interface DatabaseOptions {
  /** `postgres://user:password@host:5432/database`. Without it and without `pool`, the variable DATABASE_URL counts. */
  readonly connectionString?: string
  /** Your own `pg` pool; it stays yours and is never ended by Holdfast. */
  readonly pool?: DriverPool
  /** Behind a pooler: the address of PostgreSQL itself, for LISTEN and for migrations. */
  readonly directConnectionString?: string
  /** The schema of this installation; any name is allowed. Default: `holdfast`. */
  readonly schema?: string
  /** `auto` prepares statements until a pooler is found that does not support them. */
  readonly prepare?: 'auto' | 'off'
  /** The size of Holdfast's own pool. Default: 10. */
  readonly poolSize?: number
  /** How long a statement may take before its connection counts as hung. Default: 30 s. */
  readonly statementTimeout?: Duration
  /**
   * How long opening waits for a server that starts up, recovers, or has no connection free. Default: 30 s. Where you give it,
   * a server that cannot be reached at all is waited for too; otherwise that is an error at once.
   */
  readonly connectTimeout?: Duration
  readonly applicationName?: string
  readonly logger?: Logger
  /** For tests only. */
  readonly faults?: Faults
}

export interface CheckedOptions {
  readonly schema: string
  readonly prepare: 'auto' | 'off'
  readonly poolSize: number
  readonly statementTimeout: number
  readonly connectTimeout: number
  /** Whether to wait for a server that does not respond at all. */
  readonly waitForServer: boolean
  readonly applicationName: string | undefined
  readonly logger: Logger
}

/** Refuses what cannot work before anything is connected to. */
export function checkDatabaseOptions(options: DatabaseOptions): CheckedOptions {
  const where = 'holdfast'
  checkPool(options)
  return {
    schema: checkSchemaName(options.schema ?? 'holdfast'),
    prepare: choiceOption(where, 'prepare', options.prepare, ['auto', 'off'], { default: 'auto' }),
    poolSize: integerOption(where, 'poolSize', options.poolSize, { min: 1, default: 10 }),
    // Longer than what setTimeout holds (24 days) would fire at once.
    statementTimeout: durationOption(where, 'statementTimeout', options.statementTimeout, {
      min: 1,
      max: '24h',
      default: '30s',
    }),
    connectTimeout: durationOption(where, 'connectTimeout', options.connectTimeout, {
      min: 0,
      max: '24h',
      default: '30s',
    }),
    waitForServer: options.connectTimeout !== undefined,
    applicationName: textOption(where, 'applicationName', options.applicationName, { default: undefined }),
    logger: options.logger ?? silentLogger,
  }
}

function checkPool({ pool, connectionString }: DatabaseOptions): void {
  if (pool === undefined) return
  const problem =
    typeof pool?.connect !== 'function' || typeof pool.on !== 'function' || typeof pool.options !== 'object'
      ? 'must be a Pool of `pg`'
      : connectionString === undefined
        ? undefined
        : 'cannot be given together with `connectionString`'
  if (problem) throw invalidOption('holdfast', 'pool', problem)
}
