import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../kernel/duration/duration.js'
import { describe, shown } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, durationOption, integerOption, textOption } from '../kernel/validation/options.js'
import { checkSchema } from '../kernel/validation/schema.js'
import { checkSettings, type DispatchSettings } from './settings.js'
import type { ProcessTarget } from './targets/process.js'
import type { WorkflowTarget } from './targets/workflow.js'
import { checkTarget, type Engine, type ExecutionTarget, engineOf, isOwn, type Target } from './targets.js'

interface CommonOptions {
  /** Raise it when contexts change their form: those of another version are parsed again before they are executed. */
  readonly contextVersion?: number
  /** What the configuration begins with, the first time that this item type is heard of; operators change it later. */
  readonly config?: DispatchSettings
}

export interface ProcessDispatchOptions<Input, Result = unknown> extends CommonOptions {
  readonly target: ProcessTarget<Input, Result>
}

export interface WorkflowDispatchOptions<Schema extends StandardSchemaV1> extends CommonOptions {
  readonly target: WorkflowTarget
  /** Any Standard Schema; contexts are parsed once, when they are scheduled. Without one anything is taken. */
  readonly context?: Schema
}

export interface RemoteDispatchOptions<Schema extends StandardSchemaV1> extends CommonOptions {
  /** Any Standard Schema; contexts are parsed once, when they are scheduled. */
  readonly context: Schema
  readonly target: ExecutionTarget<StandardSchemaV1.InferOutput<Schema>>
  /** How long a call of the target may take, 30 s unless given. */
  readonly callTimeout?: Duration
}

/** A type of items. `Input` is the context that schedulers give, `Result` what the execution returns. */
export interface DispatchDefinition<Input = never, Result = unknown> {
  readonly itemType: string
  readonly engine: Engine
  readonly target: Target
  readonly contextSchema: StandardSchemaV1 | undefined
  readonly contextVersion: number
  readonly callTimeoutMs: number
  readonly settings: object
  /** Never there; these carry the types. */
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

const nameShape = /^[A-Za-z0-9_-]+$/

/**
 * Declares a type of items that are scheduled now and executed later, at a rate that is configured at run time.
 *
 * @example
 * const Settlement = defineDispatch('payment', { target: processTarget(SettlePayment) })
 * await hf.schedule(Settlement, { key: 'PAY-1', context: { paymentId: 'PAY-1' }, startAt: fourOClock })
 */
export function defineDispatch<Input, Result>(
  itemType: string,
  options: ProcessDispatchOptions<Input, Result>,
): DispatchDefinition<Input, Result>
export function defineDispatch<Schema extends StandardSchemaV1 = StandardSchemaV1>(
  itemType: string,
  options: WorkflowDispatchOptions<Schema>,
): DispatchDefinition<StandardSchemaV1.InferInput<Schema>>
export function defineDispatch<Schema extends StandardSchemaV1>(
  itemType: string,
  options: RemoteDispatchOptions<Schema>,
): DispatchDefinition<StandardSchemaV1.InferInput<Schema>, null>
export function defineDispatch(
  itemType: string,
  options:
    | ProcessDispatchOptions<never>
    | WorkflowDispatchOptions<StandardSchemaV1>
    | RemoteDispatchOptions<StandardSchemaV1>,
): DispatchDefinition<never> {
  const where = `defineDispatch ${shown(itemType)}`
  const given = checkOptions(where, options, ['target', 'context', 'contextVersion', 'config', 'callTimeout'])
  textOption(where, 'itemType', itemType, { max: 100 })
  if (!nameShape.test(itemType)) {
    throw invalidOption(where, 'itemType', `must be letters, digits, \`_\` and \`-\`, not ${describe(itemType)}`)
  }
  const target = checkTarget(where, given.target)
  if ('process' in target && given.context !== undefined) {
    throw invalidOption(where, 'context', 'is the state of the process: leave it out')
  }
  return {
    itemType,
    engine: engineOf(target),
    target,
    contextSchema: schemaOf(where, target, given.context),
    contextVersion: integerOption(where, 'contextVersion', given.contextVersion, {
      min: 1,
      max: 1_000_000,
      default: 'process' in target ? target.process.version : 1,
    }),
    callTimeoutMs: durationOption(where, 'callTimeout', given.callTimeout, { min: '1ms', max: '1h', default: '30s' }),
    settings: checkSettings(`${where}: config`, options.config ?? {}),
  }
}

function schemaOf(where: string, target: Target, context: unknown): StandardSchemaV1 | undefined {
  if ('process' in target) return target.process.stateSchema
  return isOwn(target) && context === undefined ? undefined : checkSchema(where, 'context', context)
}

/** Whether a definition that is to be registered is one of ours. */
export function isDispatch(definition: unknown): definition is DispatchDefinition<never> {
  return typeof definition === 'object' && definition !== null && 'itemType' in definition && 'engine' in definition
}
