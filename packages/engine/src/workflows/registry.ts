import type { StandardSchemaV1 } from '@standard-schema/spec'
import { createRegistry, type Registry } from '../kernel/model/index.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { functionOption } from '../kernel/validation/options.js'
import { checkSchema } from '../kernel/validation/schema.js'
import type { StepHandler, StepInquire } from './context.js'
import { handlerNameProblem } from './definition/names.js'

export interface RegisteredStepHandler {
  /** The name of the handler, as steps refer to it. */
  readonly type: string
  readonly handle: StepHandler
  readonly inputSchema: StandardSchemaV1 | undefined
  readonly inquire: StepInquire | undefined
}

interface HandlerOptions {
  readonly input?: StandardSchemaV1 | undefined
  readonly inquire?: StepInquire | undefined
}

/** The handlers of steps that this program has. */
export type StepHandlers = Registry<RegisteredStepHandler>

export const createStepHandlers = (): StepHandlers => createRegistry('workflows', { named: ({ type }) => ({ type }) })

/** Checks a handler and its options, and registers it. */
export function addStepHandler(
  handlers: StepHandlers,
  name: string,
  handle: StepHandler,
  { input: inputSchema, inquire }: HandlerOptions = {},
): void {
  const problem = handlerNameProblem(name)
  if (problem !== undefined) throw invalidOption('handle', 'name', `is no name: ${problem}`)
  const where = `handle ${name}`
  functionOption(where, 'handler', handle)
  if (inputSchema !== undefined) checkSchema(where, 'input', inputSchema)
  functionOption(where, 'inquire', inquire, { default: undefined })
  handlers.add({ type: name, handle, inputSchema, inquire })
}
