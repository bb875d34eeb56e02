import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions } from '../kernel/validation/options.js'
import type { StepHandler, StepInquire } from './context.js'
import { handlersOf, type WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import { addStepHandler } from './registry.js'
import type { HandlersFor, Workflow, WorkflowTypes } from './typed.js'

type OutputOf<Schema extends StandardSchemaV1> = StandardSchemaV1.InferOutput<Schema>

/** Registers handlers of steps and compensations, by the names that workflows use. */
export interface HandleSteps {
  /**
   * Registers the handler of steps and compensations. With `inquire` a call that must not be repeated (`nonIdempotent`) can be
   * asked about when its outcome is unknown.
   *
   * @example
   * hf.handle('ChargeCard', async (order, ctx) => cards.charge(order, ctx.idempotencyKey), { input: Order })
   */
  <Schema extends StandardSchemaV1>(
    name: string,
    handler: StepHandler<OutputOf<Schema>>,
    options: { readonly input: Schema; readonly inquire?: StepInquire<OutputOf<Schema>> },
  ): void
  (name: string, handler: StepHandler, options?: { readonly inquire?: StepInquire }): void
  /**
   * Registers several handlers of a workflow, by their names.
   *
   * @example
   * hf.handle(Order, { ChargeCard: (order, ctx) => cards.charge(order, ctx.idempotencyKey), ShipOrder: ship })
   */
  <Types extends WorkflowTypes>(workflow: Workflow<Types>, handlers: HandlersFor<Types['calls']>): void
}

export interface StepHandlerOptions {
  readonly input?: StandardSchemaV1
  readonly inquire?: StepInquire
}

type Handlers = Readonly<Record<string, StepHandler | undefined>>

/** What `hf.handle` does with anything but a command. */
export function handleSteps(
  { handlers: registry, handled, definitions }: Pick<WorkflowEngine, 'handlers' | 'handled' | 'definitions'>,
  what: string | WorkflowDefinition,
  handler: StepHandler | Handlers,
  options: StepHandlerOptions = {},
): void {
  if (typeof what === 'string' && typeof handler === 'function') {
    checkOptions(`handle ${what}`, options, ['input', 'inquire'])
    addStepHandler(registry, what, handler, options)
    return
  }
  if (typeof what !== 'object' || what === null || typeof handler !== 'object' || handler === null) {
    const given = `${describe(what)} and ${describe(handler)}`
    const problem = `must be a command or a name and a function, or a workflow and an object of functions, not ${given}`
    throw invalidOption('handle', 'handler', problem)
  }
  checkOptions(`handle ${what.name}`, handler, handlersOf(what))
  handled.add(what)
  definitions.learn(what)
  for (const [name, one] of Object.entries(handler)) if (one !== undefined) addStepHandler(registry, name, one)
}
