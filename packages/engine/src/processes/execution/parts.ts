import type { Batcher, Runtime } from '../../kernel/model/index.js'
import type { DefinedProcess } from '../define.js'
import type { Incoming, ProcessWrite } from '../queries/write-processes.js'
import type { ProcessSettings } from '../settings.js'
import type { Remotes } from './remotes.js'

/** What an execution is made with. */
export interface ExecutionParts
  extends Pick<Runtime, 'db' | 'codec' | 'logger' | 'reports' | 'limiter' | 'abortGraceMs' | 'inquireForMs'> {
  readonly definition: DefinedProcess
  readonly settings: ProcessSettings
  readonly writes: Batcher<ProcessWrite, Incoming | undefined>
  readonly remotes: Remotes
  /** Runs in the program that started it: workers must be told when it is due next. */
  readonly inStarter: boolean
  /** The worker is being stopped: finish what runs, begin nothing more. */
  readonly stopping: () => boolean
  /** Fires when that begins; an execution in its starter has none. */
  readonly stopSignal?: AbortSignal | undefined
}
