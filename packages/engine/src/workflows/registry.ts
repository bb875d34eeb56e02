import type { StandardSchemaV1 } from '@standard-schema/spec'
import { HoldfastError } from '../kernel/errors.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { functionOption } from '../kernel/validation/options.js'
import { checkSchema } from '../kernel/validation/schema.js'
import type { StepHandler, StepInquire } from './context.js'
import { handlerNameProblem } from './definition/names.js'

export interface RegisteredStepHandler {
  readonly handle: StepHandler
  readonly inputSchema: StandardSchemaV1 | undefined
  readonly inquire: StepInquire | undefined
}

interface HandlerOptions {
  readonly input?: StandardSchemaV1 | undefined
  readonly inquire?: StepInquire | undefined
}

/** The handlers that this program has, by name (W-04). Read before every claim, so they may come and go. */
export interface StepHandlers {
  add(name: string, handle: StepHandler, options?: HandlerOptions): void
  /** Answers whether it was there. What it is running goes on. */
  remove(name: string): boolean
  find(name: string): RegisteredStepHandler | undefined
  names(): readonly string[]
  /** Calls back for each that is added from now on; answers how to stop that. */
  onAdded(listener: (name: string) => void): () => void
}

export function createStepHandlers(): StepHandlers {
  const handlers = new Map<string, RegisteredStepHandler>()
  const listeners = new Set<(name: string) => void>()
  let names: readonly string[] = []
  const changed = () => {
    names = [...handlers.keys()].toSorted()
  }
  return {
    add(name, handle, { input: inputSchema, inquire } = {}) {
      const problem = handlerNameProblem(name)
      if (problem !== undefined) throw invalidOption('handle', 'name', `is no name: ${problem}`)
      const where = `handle ${name}`
      functionOption(where, 'handler', handle)
      if (inputSchema !== undefined) checkSchema(where, 'input', inputSchema)
      functionOption(where, 'inquire', inquire, { default: undefined })
      if (handlers.has(name)) throw new HoldfastError('HF_DUPLICATE_STEP_HANDLER', { handler: name })
      handlers.set(name, { handle, inputSchema, inquire })
      changed()
      for (const listener of listeners) listener(name)
    },
    remove(name) {
      const there = handlers.delete(name)
      changed()
      return there
    },
    find: (name) => handlers.get(name),
    names: () => names,
    onAdded(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
