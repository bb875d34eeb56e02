// The shape of a definition and of each type of step. What `define.ts` builds, `load.ts` reads from JSON and everything else reads.
// Definitions are stored: a field that is removed or renamed makes stored versions unreadable.

import type { Json } from '../../kernel/codec/type.js'
import type { CompensateIf } from '../../kernel/model/index.js'
import type { RetryPolicy } from '../../kernel/retry/retry-policy.js'

/**
 * A workflow as plain data: what `build` makes, what is stored, and what a file holds (`loadWorkflow`).
 *
 * The steps are in the order in which they are reached; the first is where an instance starts. Each leads to its `next`,
 * and each is led to by exactly one other step: branches are brought together by a join only, which is the `next` of their
 * fork. The last step of a branch has no `next`.
 *
 * ```json
 * {
 *   "domain": "shop", "type": "order", "version": 1,
 *   "steps": [
 *     { "name": "charge", "type": "task", "handler": "ChargeCard", "next": "fulfil",
 *       "onFailure": { "name": "refund", "handler": "RefundCard", "retry": { "maxAttempts": 5 } } },
 *     { "name": "fulfil", "type": "fork", "branches": ["ship", "check"], "next": "fulfilled" },
 *     { "name": "ship", "type": "task", "handler": "ShipOrder", "retry": { "delay": "5s", "factor": 1 } },
 *     { "name": "check", "type": "condition", "expression": "{{ gt .total 100 }}", "next": "approve", "else": "invoice" },
 *     { "name": "approve", "type": "human" },
 *     { "name": "invoice", "type": "task", "handler": "SendInvoice" },
 *     { "name": "fulfilled", "type": "join", "strategy": "all" }
 *   ]
 * }
 * ```
 *
 * Options that are left out have their defaults; durations may be written as everywhere (`"5s"`).
 */
export interface WorkflowDefinition {
  /** The team that owns it. */
  readonly domain: string
  readonly type: string
  /** `domain/type`. */
  readonly name: string
  readonly version: number
  /** A step that failed for good waits for a person instead of being undone. */
  readonly dlq: boolean
  /** How long a step stays claimed without a heartbeat. Default: the lease of the worker. */
  readonly lease?: number
  readonly steps: readonly StepDefinition[]
}

/** How a handler is called. Durations are in milliseconds. */
export interface CallSettings {
  readonly handler: string
  /** All calls, the first included. */
  readonly maxAttempts: number
  readonly retry: RetryPolicy
  /** Before the first call. */
  readonly delay: number
  readonly timeout?: number
  readonly priority: number
  /** Called again only after it was refused, or after `inquire` returned that it was not done. */
  readonly nonIdempotent: boolean
  readonly metadata?: Metadata
}

export type Metadata = { readonly [key: string]: Json }

export interface CompensationDefinition extends CallSettings {
  readonly name: string
  /** Which calls are undone; see `CompensationOptions`. */
  readonly compensateIf?: CompensateIf
}

interface Named {
  readonly name: string
  readonly next?: string
}

interface TaskStep extends Named, CallSettings {
  readonly type: 'task'
  readonly onFailure?: CompensationDefinition
}

interface HumanStep extends Named {
  readonly type: 'human'
  readonly metadata?: Metadata
  readonly onFailure?: CompensationDefinition
}

/** Evaluated on the way: it needs no handler. What follows (`next`) is its true side; `else` ends where it ends. */
export interface ConditionStep extends Named {
  readonly type: 'condition'
  readonly expression: string
  readonly else?: string
}

/** Several branches at once; its `next` is their join. Without one it is itself where they end, all of them. */
export interface ForkStep extends Named {
  readonly type: 'fork'
  readonly branches: readonly string[]
}

/** Several branches at once that need no join: it continues when all have ended. */
export interface ParallelStep extends Named {
  readonly type: 'parallel'
  readonly branches: readonly string[]
}

export type JoinStrategy = 'all' | 'any'

interface JoinStep extends Named {
  readonly type: 'join'
  readonly strategy: JoinStrategy
}

/** Nothing before it is ever undone once it is reached. */
interface SavePointStep extends Named {
  readonly type: 'save_point'
}

export type StepDefinition = TaskStep | HumanStep | ConditionStep | ForkStep | ParallelStep | JoinStep | SavePointStep

export type StepType = StepDefinition['type']

/** Whether something is a workflow as `build` makes it, among other definitions. */
export function isWorkflow(definition: unknown): definition is WorkflowDefinition {
  const is = typeof definition === 'object' && definition !== null
  return is && 'steps' in definition && Array.isArray(definition.steps) && 'dlq' in definition
}

/** The compensation of a step, where it has one. */
export function compensationOf(step: StepDefinition): CompensationDefinition | undefined {
  return 'onFailure' in step ? step.onFailure : undefined
}

/** The steps that a step may lead to, side paths first: the order in which people read them. */
export function successorsOf(step: StepDefinition): readonly string[] {
  const next = step.next === undefined ? [] : [step.next]
  switch (step.type) {
    case 'fork':
    case 'parallel':
      return [...step.branches, ...next]
    case 'condition':
      return step.else === undefined ? next : [step.else, ...next]
    default:
      return next
  }
}

/**
 * Every handler that a workflow needs, compensations included: what a service has to have registered to run all of it.
 *
 * @example
 * handlersOf(Order)   // ['ChargeCard', 'RefundCard', 'ShipOrder']
 */
export function handlersOf(definition: WorkflowDefinition): readonly string[] {
  const handlers = definition.steps.flatMap((step) => [
    ...(step.type === 'task' ? [step.handler] : []),
    ...[compensationOf(step)?.handler ?? []].flat(),
  ])
  return [...new Set(handlers)]
}
