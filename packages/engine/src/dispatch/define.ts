import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../kernel/duration/duration.js'
import { checkName } from '../kernel/ids/name.js'
import { createDefined, type Defined } from '../kernel/model/index.js'
import { anything, declareOptions, duration, integer } from '../kernel/validation/declared.js'
import { describe, shown } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkSchema } from '../kernel/validation/schema.js'
import { definedProcess } from '../processes/index.js'
import { inputSchemaOf } from '../workflows/index.js'
import { checkSettings, type DispatchSettings } from './settings.js'
import type { ProcessTarget } from './targets/process.js'
import type { WorkflowTarget } from './targets/workflow.js'
import { checkTarget, type Engine, type ExecutionTarget, engineOf, isOwn, type Target } from './targets.js'

interface CommonOptions {
  /**
   * Raise it when contexts change their form: those of another version are parsed again before they are executed. Default: the
   * version of the process, or 1.
   */
  readonly version?: number
  /** The settings that it begins with, the first time that the installation knows of it; operators change them later. */
  readonly settings?: DispatchSettings
}

export interface ProcessDispatchOptions<Input, Result = unknown> extends CommonOptions {
  readonly target: ProcessTarget<Input, Result>
}

export interface WorkflowDispatchOptions<Input, Result, Schema extends StandardSchemaV1<unknown, Input>>
  extends CommonOptions {
  readonly target: WorkflowTarget<Input, Result>
  /**
   * Any Standard Schema; contexts are parsed once, when they are scheduled. Only for a workflow without a schema for its input: the
   * schema of the workflow is used otherwise.
   */
  readonly context?: Schema
}

export interface RemoteDispatchOptions<Schema extends StandardSchemaV1> extends CommonOptions {
  /** Any Standard Schema; contexts are parsed once, when they are scheduled. */
  readonly context: Schema
  readonly target: ExecutionTarget<StandardSchemaV1.InferOutput<Schema>>
  /** How long a call of the target may take. Default: 30 s. */
  readonly callTimeout?: Duration
}

/** A type of items. `Input` is the context that schedulers give, `Result` what the execution returns. */
export interface DispatchDefinition<Input = never, Result = unknown> extends Defined<'dispatch'> {
  /** Carry the types for the compiler; never set at run time. */
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

/** A definition with what the engine alone reads. */
export interface DefinedDispatch extends DispatchDefinition {
  readonly engine: Engine
  readonly target: Target
  readonly contextSchema: StandardSchemaV1 | undefined
  readonly callTimeoutMs: number
  readonly settings: object
  /** Of the process that is its target: when an execution must have ended. */
  readonly deadline: ((context: unknown) => Date | Duration | undefined) | undefined
}

const dispatches = createDefined<DefinedDispatch>()

/** What the engine reads of a definition that was made with `defineDispatch`. */
export const definedDispatch = dispatches.of

/**
 * Declares a type of items that are scheduled now and executed later, at a rate that is configured at run time. The domain is the
 * team that owns them.
 *
 * @example
 * const Settlement = defineDispatch('payments', 'Settlement', { target: processTarget(SettlePayment) })
 * await hf.schedule(Settlement, { key: 'PAY-1', context: { paymentId: 'PAY-1' }, startAt: fourOClock })
 */
export function defineDispatch<Input, Result>(
  domain: string,
  type: string,
  options: ProcessDispatchOptions<Input, Result>,
): DispatchDefinition<Input, Result>
export function defineDispatch<
  Input,
  Result,
  Schema extends StandardSchemaV1<unknown, Input> = StandardSchemaV1<Input, Input>,
>(
  domain: string,
  type: string,
  options: WorkflowDispatchOptions<Input, Result, Schema>,
): DispatchDefinition<StandardSchemaV1.InferInput<Schema>, Result>
export function defineDispatch<Schema extends StandardSchemaV1>(
  domain: string,
  type: string,
  options: RemoteDispatchOptions<Schema>,
): DispatchDefinition<StandardSchemaV1.InferInput<Schema>, null>
export function defineDispatch(
  domain: string,
  type: string,
  options:
    | ProcessDispatchOptions<never>
    | WorkflowDispatchOptions<never, unknown, StandardSchemaV1<unknown, never>>
    | RemoteDispatchOptions<StandardSchemaV1>,
): DispatchDefinition {
  const where = `defineDispatch ${shown(domain)}/${shown(type)}`
  const given = checkDispatchOptions(where, options)
  checkPart(where, 'domain', domain)
  checkPart(where, 'type', type)
  const target = checkTarget(where, given.target)
  if ('process' in target && given.context !== undefined) {
    throw invalidOption(where, 'context', 'is the state of the process: leave it out')
  }
  return dispatches.publish({
    kind: 'dispatch',
    domain,
    type,
    name: `${domain}/${type}`,
    version: given.version ?? ('process' in target ? target.process.version : 1),
    engine: engineOf(target),
    target,
    contextSchema: schemaOf(where, target, given.context),
    callTimeoutMs: given.callTimeout,
    deadline: 'process' in target ? definedProcess(target.process)?.deadline : undefined,
    settings: checkSettings(`${where}: settings`, options.settings ?? {}),
  })
}

const checkDispatchOptions = declareOptions({
  target: anything,
  context: anything,
  version: integer({ min: 1, max: 1_000_000 }),
  settings: anything,
  callTimeout: duration({ min: '1ms', max: '1h', default: '30s' }),
})

/** Ids of executions are made of the name and join it to other parts with `:`. */
function checkPart(where: string, option: string, value: unknown): void {
  if (checkName(where, option, value).includes(':')) {
    throw invalidOption(where, option, `must not contain \`:\`, as ${describe(value)} does`)
  }
}

function schemaOf(where: string, target: Target, context: unknown): StandardSchemaV1 | undefined {
  if ('process' in target) return definedProcess(target.process)?.stateSchema
  const own = 'workflow' in target ? inputSchemaOf(target.workflow) : undefined
  if (own !== undefined && context !== undefined) {
    throw invalidOption(where, 'context', 'is the input of the workflow, which has a schema for it: leave it out')
  }
  if (own !== undefined) return own
  return isOwn(target) && context === undefined ? undefined : checkSchema(where, 'context', context)
}
