// What users declare with `defineProcess`, and its checks. The client, the registry and the executor read the checked
// definition. The options are public API: each has its documentation here.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../kernel/duration/duration.js'
import type { ClassifyOptions } from '../kernel/failure/classify.js'
import { checkName } from '../kernel/ids/name.js'
import { createDefined, type Defined } from '../kernel/model/index.js'
import {
  anything,
  boolean,
  callback,
  choice,
  declareOptions,
  duration,
  integer,
  required,
  schema,
} from '../kernel/validation/declared.js'
import { describe, shown } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { textOption } from '../kernel/validation/options.js'
import type { ProcessContext, ResponseSchemas } from './context.js'
import { type DeadlineAction, deadlineActions } from './states.js'

type Classify = NonNullable<ClassifyOptions['classify']>

/** The argument of a hook. A hook is called after the end is recorded, at most once; its error is logged and changes nothing. */
export interface ProcessEnd {
  readonly id: string
  readonly key: string | null
  readonly result?: unknown
  readonly error?: { readonly code: string; readonly message: string }
}

/** Anything but a promise: a reducer that awaits something would change the state by what is not on record. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing has this type, and no other.
type NotPromise = void | undefined | null | boolean | number | string | bigint | symbol | { readonly then?: never }

type Hook<State> = (state: State, end: ProcessEnd) => unknown

export interface ProcessOptions<StateSchema extends StandardSchemaV1, Responses extends ResponseSchemas, Result> {
  /** Any Standard Schema; the state is parsed once, when the process is started. */
  readonly state: StateSchema
  /** Raise it when the order of the calls in `execute` changes: older workers do not claim newer processes. */
  readonly version?: number
  /** What may come from outside: data with a schema, and what it does to the state. */
  readonly responses?: {
    readonly [Name in keyof Responses]: {
      readonly data: Responses[Name]
      /** Pure: changes the state and nothing else, the same on every replay. */
      readonly apply?: (
        state: StandardSchemaV1.InferOutput<StateSchema>,
        data: StandardSchemaV1.InferOutput<Responses[Name]>,
      ) => NotPromise
    }
  }
  readonly execute: (
    ctx: ProcessContext<Responses, StandardSchemaV1.InferOutput<StateSchema>>,
    state: StandardSchemaV1.InferOutput<StateSchema>,
  ) => Promise<Result>
  /** Returns the kind of errors that have none of their own. Default: permanent. */
  readonly classifyError?: Classify
  /** For waits without a `timeout`. Default: 1 h. */
  readonly waitTimeout?: Duration
  readonly deadlineAction?: DeadlineAction
  /** When the process must have ended, from its initial state: a moment, or a time from the start. */
  readonly deadline?: (state: StandardSchemaV1.InferOutput<StateSchema>) => Date | Duration | undefined
  /** How many may execute at once, over all workers. Such a process is always started on a worker. */
  readonly concurrency?: number
  /** False leaves every start to a worker, also in a program that has registered the definition. Default: true. */
  readonly immediate?: boolean
  /** How long a process whose code does not fit its history is left for other workers. Default: 1 min. */
  readonly mismatchGrace?: Duration
  /** How long a hook may take before its worker continues without it. Default: 30 s. */
  readonly hookTimeout?: Duration
  readonly onCompleted?: Hook<StandardSchemaV1.InferOutput<StateSchema>>
  readonly onFailed?: Hook<StandardSchemaV1.InferOutput<StateSchema>>
  readonly onCancelled?: Hook<StandardSchemaV1.InferOutput<StateSchema>>
}

interface ResponseDefinition {
  readonly data: StandardSchemaV1
  readonly apply: ((state: unknown, data: unknown) => unknown) | undefined
}

/** A kind of process. `Input` is what starters give, `Responses` what may be responded, `Result` what `execute` returns. */
export interface ProcessDefinition<Input = never, Responses extends ResponseSchemas = never, Result = unknown>
  extends Defined<'process'> {
  /** Carry the types for the compiler; never set at run time. */
  readonly accepts?: (input: Input) => void
  readonly hears?: (responses: Responses) => void
  readonly returns?: Result
}

/** A definition with what the engine alone reads. */
export interface DefinedProcess extends ProcessDefinition {
  readonly stateSchema: StandardSchemaV1
  readonly responses: ReadonlyMap<string, ResponseDefinition>
  readonly execute: (ctx: ProcessContext, state: unknown) => Promise<unknown>
  readonly classifyError: Classify | undefined
  readonly waitTimeoutMs: number
  readonly deadlineAction: DeadlineAction
  readonly deadline: ((state: unknown) => Date | Duration | undefined) | undefined
  readonly concurrency: number | undefined
  readonly immediate: boolean
  readonly mismatchGraceMs: number
  readonly hookTimeoutMs: number
  readonly hooks: {
    readonly completed: Hook<unknown> | undefined
    readonly failed: Hook<unknown> | undefined
    readonly cancelled: Hook<unknown> | undefined
  }
}

const processes = createDefined<DefinedProcess>()

/** What the engine reads of a definition that was made with `defineProcess`. */
export const definedProcess = processes.of

/** The same definition with other code, for tests that watch user code. */
export function withExecute(
  definition: object,
  change: (execute: DefinedProcess['execute']) => DefinedProcess['execute'],
): ProcessDefinition | undefined {
  const defined = definedProcess(definition)
  return defined && processes.publish({ ...defined, execute: change(defined.execute) })
}

const checkProcessOptions = declareOptions({
  state: required(schema),
  version: integer({ min: 1, max: 1_000, default: 1 }),
  responses: anything,
  execute: required(callback<DefinedProcess['execute']>()),
  classifyError: callback<Classify>(),
  waitTimeout: duration({ min: '1ms', default: '1h' }),
  deadlineAction: choice(deadlineActions, { default: 'tsq' }),
  deadline: callback<NonNullable<DefinedProcess['deadline']>>(),
  concurrency: integer({ min: 1, max: 100_000 }),
  immediate: boolean({ default: true }),
  mismatchGrace: duration({ default: '1m' }),
  hookTimeout: duration({ min: '1ms', max: '1d', default: '30s' }),
  onCompleted: callback<Hook<unknown>>(),
  onFailed: callback<Hook<unknown>>(),
  onCancelled: callback<Hook<unknown>>(),
})
const checkResponse = declareOptions({
  data: required(schema),
  apply: callback<NonNullable<ResponseDefinition['apply']>>(),
})

const nameShape = /^[A-Za-z0-9_-]+$/

/**
 * Declares a process: plain sequential code that may be killed at any instruction and continues where its record ends.
 *
 * @example
 * const Payment = defineProcess('payments', 'Payment', {
 *   state: z.object({ paymentId: z.string(), approved: z.boolean().optional() }),
 *   responses: { decided: { data: z.object({ approved: z.boolean() }), apply: (state, d) => { state.approved = d.approved } } },
 *   async execute(ctx, state) {
 *     const booked = await ctx.step('book', ({ idempotencyKey }) => risk.book(state.paymentId, idempotencyKey))
 *     await ctx.wait('decision', () => state.approved !== undefined, { timeout: '2h' })
 *     return booked.reference
 *   },
 * })
 */
export function defineProcess<
  StateSchema extends StandardSchemaV1,
  Responses extends ResponseSchemas = Record<never, never>,
  Result = void,
>(
  domain: string,
  type: string,
  options: ProcessOptions<StateSchema, Responses, Result>,
): ProcessDefinition<StandardSchemaV1.InferInput<StateSchema>, Responses, Result> {
  const where = `defineProcess ${shown(domain)}/${shown(type)}`
  const { state, responses, waitTimeout, mismatchGrace, hookTimeout, onCompleted, onFailed, onCancelled, ...given } =
    checkProcessOptions(where, options)
  checkPlainName(where, 'domain', domain)
  checkPlainName(where, 'type', type)
  return processes.publish({
    kind: 'process',
    domain,
    type,
    name: `${domain}/${type}`,
    ...given,
    stateSchema: state,
    responses: responsesOf(where, (responses ?? {}) as object),
    waitTimeoutMs: waitTimeout,
    mismatchGraceMs: mismatchGrace,
    hookTimeoutMs: hookTimeout,
    hooks: { completed: onCompleted, failed: onFailed, cancelled: onCancelled },
  })
}

function responsesOf(where: string, responses: object): ReadonlyMap<string, ResponseDefinition> {
  const known = new Map<string, ResponseDefinition>()
  for (const [name, response] of Object.entries(responses)) {
    if (name.startsWith('@'))
      throw invalidOption(where, 'responses', `has \`${name}\`: names that begin with @ are our own`)
    checkName(where, 'responses', name)
    known.set(name, checkResponse(`${where}: responses.${name}`, response))
  }
  return known
}

export function checkPlainName(where: string, option: string, value: unknown): void {
  textOption(where, option, value, { max: 100 })
  if (typeof value === 'string' && nameShape.test(value)) return
  throw invalidOption(where, option, `must be letters, digits, \`_\` and \`-\`, not ${describe(value)}`)
}
