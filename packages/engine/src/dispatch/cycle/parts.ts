import type { Runtime } from '../../kernel/model/index.js'
import type { WorkflowEngine } from '../../workflows/index.js'
import type { DefinedDispatch } from '../define.js'
import type { Marks } from './marks.js'

/** What the stages of a cycle work with. */
export interface CycleParts extends Pick<Runtime, 'db' | 'codec' | 'limiter' | 'logger' | 'metrics' | 'reports'> {
  readonly definition: DefinedDispatch
  readonly marks: Marks
  /** For targets that are workflows. */
  readonly workflows: Pick<WorkflowEngine, 'definitions'>
}

/** Which cycle it is: every write that takes from the queue names its epoch. */
export interface Cycle {
  readonly type: string
  readonly epoch: number
  /** Fires when the lease is lost or the worker is told to stop now. */
  readonly signal: AbortSignal
}

/** The result of a batch. */
export interface BatchOutcome {
  readonly outcome: 'lost' | 'off' | 'ahead' | 'released'
  readonly claimed: number
  readonly started: number
  readonly failed: number
  readonly full: boolean
  /** Why the window has just stopped by itself. */
  readonly tripped?: string | null
}
