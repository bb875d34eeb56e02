import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { ProcessTarget } from './targets/process.js'
import type { WorkflowTarget } from './targets/workflow.js'

/** One item on its way to a remote target. */
export interface ExecutionStart<Context = unknown> {
  readonly key: string
  /** The same for every attempt of the same execution: an engine that knows it has started it already. */
  readonly executionId: string
  readonly context: Context
  readonly contextVersion: number
  readonly initWorkflowId: string | null
  /** Not before this moment, and how many milliseconds that is from now. Never more than one cycle ahead. */
  readonly startAt: Date
  readonly startDelay: number
  /** What an operator has configured (`exec_workflow_type`, `exec_task_queue`). */
  readonly workflowType: string | null
  readonly taskQueue: string | null
}

/**
 * The outcome of a start. An execution that existed already counts as started. `failed` with a `BusinessError` or a
 * `PermanentError`: nothing was started. With any other error the outcome is unknown, and the target is asked before it is started again.
 */
export type StartOutcome = 'started' | 'alreadyStarted' | { readonly failed: unknown }

/**
 * What an engine knows of an execution. `UNKNOWN`: it cannot say now, and the item is not changed; `FAILED` is technical and
 * retried; `CANCELLED` (also: compensated, aborted) is final.
 */
export interface ExecutionState {
  readonly status: 'NOT_FOUND' | 'RUNNING' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'UNKNOWN'
  readonly error?: unknown
}

export interface TargetCall {
  /** Fires when the call takes too long, or the cycle's lease is lost. */
  readonly signal: AbortSignal
}

/**
 * An engine that executes items elsewhere. A start may fail, may have happened already, or may be of unknown outcome. A call that
 * throws, takes too long or returns something unexpected leaves the outcome of its items unknown, and of no others:
 * they stay CLAIMED until `describe` has said whether they were started.
 */
export interface ExecutionTarget<Context = unknown> {
  readonly name: string
  /** Starts executions; returns the outcome of each, in order. */
  start(items: readonly ExecutionStart<Context>[], call: TargetCall): Promise<readonly StartOutcome[]>
  /** Returns the status of each execution, in order. */
  describe(executionIds: readonly string[], call: TargetCall): Promise<readonly ExecutionState[]>
  /** Ends executions early, for operators who cancel dispatched items. Without it they are refused. */
  cancel?(executionIds: readonly string[], call: TargetCall): Promise<void>
}

/** The engines that an item type may be executed by, as its configuration names them. */
export type Engine = 'PROCESS' | 'WORKFLOW' | 'REMOTE'

/** Our own engines: their executions are rows beside the items. */
export type OwnTarget = ProcessTarget<never> | WorkflowTarget<never>

export type Target = OwnTarget | ExecutionTarget<never>

export const isOwn = (target: Target): target is OwnTarget => 'kind' in target

export const engineOf = (target: Target): Engine => (isOwn(target) ? target.kind : 'REMOTE')

export function checkTarget(where: string, target: unknown): Target {
  if (typeof target === 'object' && target !== null) {
    if ('process' in target && 'kind' in target) return target as ProcessTarget<never>
    if ('workflow' in target && 'kind' in target) return target as WorkflowTarget<never>
    const { start, describe: describes, name } = target as Partial<ExecutionTarget>
    if (typeof start === 'function' && typeof describes === 'function' && typeof name === 'string') {
      return target as ExecutionTarget<never>
    }
  }
  throw invalidOption(
    where,
    'target',
    `must be processTarget(…) or workflowTarget(…), or have \`name\`, \`start\` and \`describe\`; it is ${describe(target)}`,
  )
}
