import type { Batcher } from '../../kernel/batching/batcher.js'
import type { Codec } from '../../kernel/codec/codec.js'
import type { Database } from '../../kernel/database/database.js'
import type { Logger } from '../../kernel/logger.js'
import type { Reports } from '../../kernel/reports/reports.js'
import type { ProcessDefinition } from '../define.js'
import type { Incoming, ProcessWrite } from '../queries/write-processes.js'
import type { ProcessSettings } from '../settings.js'
import type { Remotes } from './remotes.js'

/** Grants slots of rate limits; what the engine needs of the limiter. */
export interface SlotGiver {
  reserve(
    key: string,
    maxWaitMs: number,
    signal?: AbortSignal,
  ): Promise<
    { readonly granted: true; readonly waitMs: number } | { readonly granted: false; readonly retryAfterMs: number }
  >
}

/** What an execution is made with. */
export interface ExecutionParts {
  readonly db: Database
  readonly definition: ProcessDefinition
  readonly settings: ProcessSettings
  readonly codec: Codec
  readonly writes: Batcher<ProcessWrite, Incoming | undefined>
  readonly limiter: SlotGiver
  readonly remotes: Remotes
  /** How long to wait for code that was aborted. */
  readonly abortGraceMs: number
  /** How long `inquire` is called again while it returns `unknown`. */
  readonly inquireForMs: number
  readonly logger: Logger
  readonly reports: Reports
  /** Runs in the program that started it: workers must be told when it is due next. */
  readonly inStarter: boolean
  /** The worker is being stopped: finish what runs, begin nothing more. */
  readonly stopping: () => boolean
  /** Fires when that begins; an execution in its starter has none. */
  readonly stopSignal?: AbortSignal | undefined
}
