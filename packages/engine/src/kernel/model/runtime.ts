import type { Codec } from '../codec/codec.js'
import type { Database } from '../database/database.js'
import type { Logger } from '../logger.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Reports } from '../reports/reports.js'
import type { MissingWorkers } from '../results/presence.js'
import type { Results } from '../results/results.js'
import type { Gate } from '../work/alone.js'
import type { Limiter } from './limiter.js'

/** What all parts of an installation share. Created once, when it is opened, and passed down. */
export interface Runtime {
  readonly db: Database
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
  readonly limiter: Limiter
  /** Waits for ends of work. */
  readonly results: Results
  /** Warns of work that no live worker has the code for. */
  readonly missing: MissingWorkers
  /** Keeps other work from beginning while an item runs alone. */
  readonly gate: Gate
  /** This program, as operators see it: host, process and a random part. */
  readonly name: string
  /** Whether processes run in their starter until their first wait. `unregistered`: also those that are not registered here. */
  readonly immediate: boolean | 'unregistered'
  /** How long code that was told to stop is awaited. */
  readonly abortGraceMs: number
  /** How long an `inquire` is repeated while the outcome of a call is unknown. */
  readonly inquireForMs: number
}
