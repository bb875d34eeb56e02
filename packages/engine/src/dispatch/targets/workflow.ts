import { describe } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { isWorkflow, type WorkflowDefinition } from '../../workflows/index.js'

/** Executes items as workflows: the context is the input of the instance. */
export interface WorkflowTarget {
  readonly kind: 'WORKFLOW'
  readonly workflow: WorkflowDefinition
}

/**
 * Executes items as workflow instances: a batch is started by one statement, in the transaction that marks its items.
 *
 * @example
 * const Payout = defineDispatch('payments', 'Payout', { target: workflowTarget(PayOut), context: PayoutInput })
 */
export function workflowTarget(workflow: WorkflowDefinition): WorkflowTarget {
  if (isWorkflow(workflow)) return { kind: 'WORKFLOW', workflow }
  throw invalidOption('workflowTarget', 'workflow', `must be a built workflow, not ${describe(workflow)}`)
}
