import { describe } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { isWorkflow, type Workflow, type WorkflowDefinition, type WorkflowTypes } from '../../workflows/index.js'

/** Executes items as workflows: the context is the input of the instance. */
export interface WorkflowTarget<Input = never, Result = unknown> {
  readonly kind: 'WORKFLOW'
  readonly workflow: WorkflowDefinition
  /** Never there; these carry the types. */
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

/**
 * Executes items as workflow instances: a batch is started by one statement, in the transaction that marks its items.
 *
 * @example
 * const Payout = defineDispatch('payments', 'Payout', { target: workflowTarget(PayOut) })
 */
export function workflowTarget<Types extends WorkflowTypes>(
  workflow: Workflow<Types>,
): WorkflowTarget<Types['input'], Types['result']> {
  if (isWorkflow(workflow)) return { kind: 'WORKFLOW', workflow }
  throw invalidOption('workflowTarget', 'workflow', `must be a built workflow, not ${describe(workflow)}`)
}
