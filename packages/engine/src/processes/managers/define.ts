// What users declare with `defineManager`, and its checks. The client, the registry and the driver read the checked
// definition. The options are public API: each has its documentation here.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../../kernel/duration/duration.js'
import { checkName } from '../../kernel/ids/name.js'
import { createDefined, type Defined } from '../../kernel/model/defined.js'
import { describe, shown } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, functionOption, integerOption } from '../../kernel/validation/options.js'
import { checkSchema } from '../../kernel/validation/schema.js'
import { checkPlainName } from '../define.js'
import type { DeadlineAction } from '../states.js'
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

const KNOWN_OPTIONS = [
  'state',
  'steps',
  'version',
  'firstStep',
  'command',
  'onReply',
  'nextStep',
  'compensation',
  'waitOnly',
  'timeout',
  'deadline',
  'deadlineAction',
] as const

const OPTIONAL = ['compensation', 'waitOnly', 'timeout', 'deadline'] as const

type Handlers = Pick<DefinedManager, 'firstStep' | 'command' | 'onReply' | 'nextStep' | (typeof OPTIONAL)[number]>

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
  const given = checkOptions(where, options, KNOWN_OPTIONS)
  checkPlainName(where, 'domain', domain)
  checkPlainName(where, 'type', type)
  for (const name of ['firstStep', 'command', 'onReply', 'nextStep'] as const) functionOption(where, name, given[name])
  for (const name of OPTIONAL) functionOption(where, name, given[name], { default: undefined })
  // Inside, the handlers get what they themselves made; the types above hold it together.
  const { firstStep, command, onReply, nextStep, compensation, waitOnly, timeout, deadline } =
    options as unknown as Handlers
  return managers.publish({
    kind: 'manager',
    domain,
    type,
    name: `${domain}/${type}`,
    version: integerOption(where, 'version', given.version, { min: 1, max: 1_000, default: 1 }),
    stateSchema: checkSchema(where, 'state', options.state),
    steps: stepsOption(where, given.steps),
    firstStep,
    command,
    onReply,
    nextStep,
    compensation,
    waitOnly,
    timeout,
    deadline,
    deadlineAction: choiceOption(where, 'deadlineAction', given.deadlineAction, ['tsq', 'compensate', 'fail'], {
      default: 'tsq',
    }),
  })
}

function stepsOption(where: string, steps: unknown): ReadonlySet<string> | undefined {
  if (steps === undefined) return undefined
  if (Array.isArray(steps) && steps.length > 0) return new Set(steps.map((step) => checkName(where, 'steps', step)))
  throw invalidOption(where, 'steps', `must be a list of names, not ${describe(steps)}`)
}
