// What users declare with `defineManager`, and its checks. The client, the registry and the driver read the checked
// definition. The options are public API: each has its documentation here.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../../kernel/duration/duration.js'
import { checkName } from '../../kernel/ids/name.js'
import { createDefined, type Defined } from '../../kernel/model/index.js'
import { callback, choice, declareOptions, integer, required, schema } from '../../kernel/validation/declared.js'
import { describe, shown } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { checkPlainName } from '../define.js'
import { type DeadlineAction, deadlineActions } from '../states.js'
import type { StepCommand } from './step-command.js'
import type { StepReply } from './step-reply.js'

/**
 * The handlers of a manager are pure: they decide by what they are given, call nothing outside, and may be called again
 * for the same reply.
 */
export interface ManagerOptions<StateSchema extends StandardSchemaV1, Step extends string> {
  /** Any Standard Schema; the state is parsed once, when the process is started. */
  readonly state: StateSchema
  /** The names of the steps. Gives them a type, and a step that is not among them is found out. */
  readonly steps?: readonly Step[]
  /** Raise it when the steps change: older workers leave newer processes alone. */
  readonly version?: number
  readonly firstStep: (state: StandardSchemaV1.InferOutput<StateSchema>) => NoInfer<Step>
  /** What a step sends; made with `stepCommand`. */
  readonly command: (step: NoInfer<Step>, state: StandardSchemaV1.InferOutput<StateSchema>) => StepCommand
  /** The state with what a final reply brings: also with failures, and after the process has ended. */
  readonly onReply: (
    state: StandardSchemaV1.InferOutput<StateSchema>,
    step: NoInfer<Step>,
    reply: StepReply,
  ) => StandardSchemaV1.InferOutput<StateSchema>
  /** Where a successful reply leads: nothing when the process is done, the same step of a wait-only one to wait for more. */
  readonly nextStep: (
    step: NoInfer<Step>,
    reply: StepReply,
    state: StandardSchemaV1.InferOutput<StateSchema>,
  ) => NoInfer<Step> | null | undefined
  /** What undoes a step whose command has succeeded; nothing where there is nothing to undo. */
  readonly compensation?: (
    step: NoInfer<Step>,
    state: StandardSchemaV1.InferOutput<StateSchema>,
  ) => StepCommand | undefined
  /** Steps that send nothing and wait for replies from outside. */
  readonly waitOnly?: (step: NoInfer<Step>, state: StandardSchemaV1.InferOutput<StateSchema>) => boolean
  /** How long a step that only waits may wait before the process goes to troubleshooting; as long as it takes unless given. */
  readonly timeout?: (
    step: NoInfer<Step>,
    state: StandardSchemaV1.InferOutput<StateSchema>,
  ) => Duration | null | undefined
  /** When the process must have ended, from its initial state: a moment, or a time from the start. */
  readonly deadline?: (state: StandardSchemaV1.InferOutput<StateSchema>) => Date | Duration | undefined
  /** What becomes of it then; a command that is under way is waited for. Troubleshooting unless given. */
  readonly deadlineAction?: DeadlineAction
}

/** A kind of step-based process. `Input` is what starters give. */
export interface ManagerDefinition<Input = never> extends Defined<'manager'> {
  /** Never there; carries the type. */
  readonly accepts?: (input: Input) => void
}

/** A definition with what the engine alone reads. */
export interface DefinedManager extends ManagerDefinition {
  readonly stateSchema: StandardSchemaV1
  readonly steps: ReadonlySet<string> | undefined
  readonly firstStep: (state: unknown) => unknown
  readonly command: (step: string, state: unknown) => unknown
  readonly onReply: (state: unknown, step: string, reply: StepReply) => unknown
  readonly nextStep: (step: string, reply: StepReply, state: unknown) => unknown
  readonly compensation: ((step: string, state: unknown) => unknown) | undefined
  readonly waitOnly: ((step: string, state: unknown) => unknown) | undefined
  readonly timeout: ((step: string, state: unknown) => unknown) | undefined
  readonly deadline: ((state: unknown) => Date | Duration | undefined) | undefined
  readonly deadlineAction: DeadlineAction
}

const managers = createDefined<DefinedManager>()

/** What the engine reads of a definition that was made with `defineManager`. */
export const definedManager = managers.of

const handler = <Name extends keyof DefinedManager>() => callback<NonNullable<DefinedManager[Name]>>()
const checkManagerOptions = declareOptions({
  state: required(schema),
  steps: stepNames,
  version: integer({ min: 1, max: 1_000, default: 1 }),
  firstStep: required(handler<'firstStep'>()),
  command: required(handler<'command'>()),
  onReply: required(handler<'onReply'>()),
  nextStep: required(handler<'nextStep'>()),
  compensation: handler<'compensation'>(),
  waitOnly: handler<'waitOnly'>(),
  timeout: handler<'timeout'>(),
  deadline: handler<'deadline'>(),
  deadlineAction: choice(deadlineActions, { default: 'tsq' }),
})

/**
 * Declares a step-based process: a state machine over commands and their replies.
 *
 * @example
 * const Order = defineManager('orders', 'Order', {
 *   state: z.object({ cents: z.int(), receipt: z.string().optional() }),
 *   steps: ['reserve', 'charge'],
 *   firstStep: () => 'reserve',
 *   command: (step, order) =>
 *     step === 'reserve' ? stepCommand(Reserve, { cents: order.cents }) : stepCommand(Charge, { cents: order.cents }),
 *   onReply: (order, step, reply) =>
 *     step === 'charge' && reply.outcome === 'SUCCESS' ? { ...order, receipt: resultOf(Charge, reply).receipt } : order,
 *   nextStep: (step) => (step === 'reserve' ? 'charge' : null),
 *   compensation: (step, order) => (step === 'reserve' ? stepCommand(Release, { cents: order.cents }) : undefined),
 * })
 */
export function defineManager<StateSchema extends StandardSchemaV1, const Step extends string = string>(
  domain: string,
  type: string,
  options: ManagerOptions<StateSchema, Step>,
): ManagerDefinition<StandardSchemaV1.InferInput<StateSchema>> {
  const where = `defineManager ${shown(domain)}/${shown(type)}`
  // Inside, the handlers get what they themselves made; the types above hold it together.
  const { state, ...given } = checkManagerOptions(where, options)
  checkPlainName(where, 'domain', domain)
  checkPlainName(where, 'type', type)
  return managers.publish({ kind: 'manager', domain, type, name: `${domain}/${type}`, ...given, stateSchema: state })
}

function stepNames(where: string, name: string, steps: unknown): ReadonlySet<string> | undefined {
  if (steps === undefined) return undefined
  if (Array.isArray(steps) && steps.length > 0) return new Set(steps.map((step) => checkName(where, name, step)))
  throw invalidOption(where, name, `must be a list of names, not ${describe(steps)}`)
}
