// Hooks of plugins: called before a start and before a step, and told afterwards what was committed. `engine.ts` makes one set per
// program; the client, the attempts and the committed events call it. A hook that hangs or throws must not stop a worker.

import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { callLimited, definitionOf, type Logger } from '../kernel/model/index.js'
import { checkOptions, durationOption, functionOption, textOption } from '../kernel/validation/options.js'
import type { AppliedEvent } from './instance-events.js'
import type { InstanceEnd } from './states.js'

export interface HookedWorkflow {
  readonly instanceId: string
  readonly workflow: string
  readonly version: number
}

export interface HookedStep extends HookedWorkflow {
  readonly step: string
  /** Calls so far. */
  readonly attempt: number
}

interface HookedError {
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * Hooks of a plugin. `workflowStarting` and `stepStarting` are called before: an error that they throw refuses the start
 * of an instance, or fails that attempt of a step. The others are called after the commit, by the program that recorded
 * it: at most once, and not at all if that program dies at that moment. Make work that must not be lost a step of the workflow.
 */
export interface WorkflowHooks {
  /** Shown if it refuses something. Default: `hook 1`, `hook 2` and so on. */
  readonly name?: string
  /**
   * How long a hook that is called before may take: after that the start is refused, or the attempt of the step fails, and
   * the program continues. Default: 10 s.
   */
  readonly timeout?: Duration
  workflowStarting?(workflow: HookedWorkflow & { readonly input: unknown }): void | Promise<void>
  workflowCompleted?(workflow: HookedWorkflow): void | Promise<void>
  workflowFailed?(workflow: HookedWorkflow & HookedError & { readonly status: InstanceEnd }): void | Promise<void>
  stepStarting?(step: HookedStep & { readonly input: unknown }): void | Promise<void>
  stepCompleted?(step: HookedStep): void | Promise<void>
  /** It failed for good. */
  stepFailed?(step: HookedStep & HookedError): void | Promise<void>
}

const HOOKS = [
  'name',
  'timeout',
  'workflowStarting',
  'workflowCompleted',
  'workflowFailed',
  'stepStarting',
  'stepCompleted',
  'stepFailed',
] as const satisfies readonly (keyof WorkflowHooks)[]

export function createHooks(logger: Logger) {
  const plugins = new Set<{ readonly name: string; readonly limitMs: number; readonly hooks: WorkflowHooks }>()
  let count = 0

  function tell(name: string, call: () => void | Promise<void> | undefined): void {
    const failed = (error: unknown) =>
      logger.error({ err: error, hook: name }, 'a workflow hook failed; the committed change is not affected')
    try {
      Promise.resolve(call()).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  return {
    add(hooks: WorkflowHooks): () => void {
      const limitMs = check(hooks)
      count += 1
      const plugin = { name: hooks.name ?? `hook ${count}`, limitMs, hooks }
      plugins.add(plugin)
      return () => void plugins.delete(plugin)
    },
    get any() {
      return plugins.size > 0
    },
    /** Calls all; throws HF_START_VETOED for the first that refuses. */
    async starting(workflow: HookedWorkflow & { readonly input: unknown }): Promise<void> {
      for (const { name, limitMs, hooks } of plugins) {
        try {
          await within(limitMs, () => hooks.workflowStarting?.(workflow))
        } catch (error) {
          const problem = error instanceof Error ? error.message : String(error)
          const details = {
            ...definitionOf('workflows', workflow.workflow),
            version: workflow.version,
            hook: name,
            problem,
          }
          throw new HoldfastError('HF_START_VETOED', details, { cause: error })
        }
      }
    },
    /** Calls all; what one throws is the failure of the attempt. */
    async stepStarting(step: HookedStep & { readonly input: unknown }): Promise<void> {
      for (const { limitMs, hooks } of plugins) await within(limitMs, () => hooks.stepStarting?.(step))
    },
    /** Tells them what was committed; never throws. */
    applied({ definition, decision, state }: AppliedEvent): void {
      if (plugins.size === 0) return
      const workflow = { instanceId: state.id, workflow: definition.name, version: definition.version }
      for (const { type, step = '', status, attempts = 0, error } of decision.events) {
        const failed = error === undefined ? {} : { error }
        for (const { name, hooks } of plugins) {
          tell(name, () => {
            switch (type) {
              case 'workflow_completed':
                return hooks.workflowCompleted?.(workflow)
              case 'workflow_failed':
              case 'workflow_cancelled':
              case 'workflow_aborted':
                return hooks.workflowFailed?.({ ...workflow, ...failed, status: status as InstanceEnd })
              case 'step_completed':
                return hooks.stepCompleted?.({ ...workflow, step, attempt: attempts })
              case 'step_failed':
                return hooks.stepFailed?.({ ...workflow, ...failed, step, attempt: attempts })
              default:
                return undefined
            }
          })
        }
      }
    },
  }
}

/** A hook has no signal, so nothing is gained by waiting for it longer. */
const within = (limitMs: number, code: () => void | Promise<void> | undefined) =>
  callLimited({ limitMs, graceMs: 0, around: () => [] }, code)

/** The time limit of the hooks that are called before a step. */
function check(hooks: WorkflowHooks): number {
  const given = checkOptions('workflows.use', hooks, HOOKS)
  textOption('workflows.use', 'name', given.name, { default: undefined })
  for (const name of HOOKS) {
    if (name !== 'name' && name !== 'timeout')
      functionOption('workflows.use', name, given[name], { default: undefined })
  }
  return durationOption('workflows.use', 'timeout', given.timeout, { min: '1ms', max: '1d', default: '10s' })
}
