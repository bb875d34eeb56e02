import { describe } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { definedProcess, type ProcessDefinition, type ResponseSchemas } from '../../processes/index.js'

/** Executes items as processes: the context is the process's initial state. */
export interface ProcessTarget<Input = never, Result = unknown> {
  readonly kind: 'PROCESS'
  readonly process: ProcessDefinition
  /** Carry the types for the compiler; never set at run time. */
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

/**
 * Executes items as processes: a batch is started by one statement, in the transaction that marks its items.
 *
 * @example
 * const Settlement = defineDispatch('payments', 'Settlement', { target: processTarget(SettlePayment) })
 */
export function processTarget<Input, Responses extends ResponseSchemas, Result>(
  process: ProcessDefinition<Input, Responses, Result>,
): ProcessTarget<Input, Result> {
  if (!definedProcess(process)) {
    throw invalidOption('processTarget', 'process', `must be made with defineProcess, not ${describe(process)}`)
  }
  return { kind: 'PROCESS', process: process as unknown as ProcessDefinition }
}
