// The builder behind `defineWorkflow`: each method checks its options and adds a step; `build` checks the graph and makes the plain
// definition. Users call it; the types of inputs and outputs are in `typed.ts`. The options are public API: each has its documentation
// here or in `definition/settings.ts`. A graph that could never end, or joins what was never forked, must be refused here.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, shown } from '../kernel/validation/describe.js'
import { checkOptions, choiceOption } from '../kernel/validation/options.js'
import { type ConditionFunction, recordCondition } from './condition/record.js'
import { checkSteps } from './definition/check.js'
import type { Declared, Given, OfType, Received } from './definition/declared.js'
import {
  compensationOf,
  type JoinStrategy,
  type Metadata,
  type StepDefinition,
  type WorkflowDefinition,
} from './definition/definition.js'
import { type Draft, flatten, type Path } from './definition/flatten.js'
import { invalidWorkflow } from './definition/invalid.js'
import { nameProblem, workflowTypeProblem } from './definition/names.js'
import {
  type CompensationOptions,
  checkCall,
  checkCompensation,
  checkMetadata,
  checkVersion,
  checkWorkflowOptions,
  type StepOptions,
  type WorkflowOptions,
  type WorkflowSettings,
} from './definition/settings.js'
import type {
  BranchOf,
  BuilderTypes,
  Call,
  EndOf,
  First,
  JoinedBy,
  NewName,
  Typed,
  TypesOf,
  With,
  WithBranches,
  WithJoined,
  WithStep,
  Workflow,
} from './typed.js'

type Branch<Types extends BuilderTypes, Name extends string> = (
  branch: WorkflowBuilder<BranchOf<Types, Name>>,
) => Typed<BuilderTypes>

/**
 * The builder that a branch is given, for branches that are functions of their own: `Taken` has the names that are taken before it.
 *
 * @example
 * const shipping = (b: WorkflowBranch<'charge' | 'fulfil', Receipt>) => b.step('ship', 'ShipOrder')
 */
export type WorkflowBranch<Taken extends string, Current = unknown, Input = unknown> = WorkflowBuilder<{
  steps: Taken
  calls: never
  humans: never
  input: Input
  current: Current
  before: unknown
  ends: never
  first: never
}>

interface OutputOption<Output extends Declared> {
  /** The type of what the handler returns: a schema, or `ofType<Receipt>()`. Only the compiler uses it. */
  readonly output?: Output
}

/** The type of the output is no part of the stored definition. */
function withoutOutput(options: (StepOptions & OutputOption<Declared>) | undefined): StepOptions | undefined {
  if (typeof options !== 'object' || options === null || !('output' in options)) return options
  const { output: _, ...call } = options
  return call
}

interface Head {
  readonly domain: string
  readonly type: string
  readonly name: string
  readonly version: number
  readonly settings: WorkflowSettings
  readonly input: StandardSchemaV1 | undefined
}

/** The schemas of inputs, which are no part of the stored definition, by the workflow that `build` has made. */
const inputSchemas = new WeakMap<WorkflowDefinition, StandardSchemaV1>()

/** The schema that the input of a workflow is parsed with on start, where its definition has one. */
export const inputSchemaOf = (workflow: WorkflowDefinition): StandardSchemaV1 | undefined => inputSchemas.get(workflow)

const schemaOf = (declared: Declared | undefined): StandardSchemaV1 | undefined =>
  declared !== undefined && '~standard' in declared ? declared : undefined

/**
 * Declares a workflow: a saga as a graph of named steps. The output of a step is the input of the next. Each call returns a
 * new builder and does not change the one it was called on; branches return theirs.
 *
 * @example
 * const Order = defineWorkflow('shop', 'order', { version: 2 })
 *   .step('charge', 'ChargeCard').onFailure('refund', 'RefundCard', { retry: { maxAttempts: 5 } })
 *   .fork('fulfil', (b) => b.step('ship', 'ShipOrder'), (b) => b.step('invoice', 'SendInvoice'))
 *   .join('fulfilled', 'all')
 *   .build()
 */
export function defineWorkflow<Input extends Declared = OfType<unknown>>(
  domain: string,
  type: string,
  options: WorkflowOptions<Input> = {},
): WorkflowBuilder<{
  steps: never
  calls: never
  humans: never
  input: Given<Input>
  current: Received<Input>
  before: unknown
  ends: never
  first: never
}> {
  const name = `${shown(domain)}/${shown(type)}`
  const where = `defineWorkflow ${name}`
  const problem = nameProblem(domain) ?? workflowTypeProblem(type)
  if (problem !== undefined) throw invalidWorkflow(name, undefined, problem)
  const settings = checkWorkflowOptions(where, options)
  const version = checkVersion(where, options.version ?? 1)
  const input = schemaOf(options.input)
  return new WorkflowBuilder({ domain, type, name: `${domain}/${type}`, version, settings, input }, [])
}

export class WorkflowBuilder<Types extends BuilderTypes = BuilderTypes> implements Typed<Types> {
  declare readonly types?: Types
  readonly #head: Head
  readonly #path: Path

  /** @internal Use `defineWorkflow`. */
  constructor(head: Head, path: Path) {
    this.#head = head
    this.#path = path
  }

  /** A step that a handler executes; any service may register a handler of this name. */
  step<Name extends string, Handler extends string, Output extends Declared = OfType<unknown>>(
    name: NewName<Name, Types['steps']>,
    handler: Handler,
    options?: StepOptions & OutputOption<Output>,
  ): WorkflowBuilder<WithStep<Types, Name, Handler, Received<Output>>> {
    const { maxAttempts, retry } = this.#head.settings
    const defaults = { maxAttempts, ...(retry === undefined ? {} : { retry }), priority: 50 }
    const call = checkCall(this.#where(name), handler, withoutOutput(options), defaults)
    return this.#add({ name, type: 'task', ...call })
  }

  /** The same as `step`. */
  // The rule W-01 has this name; awaiting a builder by mistake is refused below.
  /* oxlint-disable-next-line unicorn/no-thenable */ // biome-ignore lint/suspicious/noThenProperty: as above
  then<Name extends string, Handler extends string, Output extends Declared = OfType<unknown>>(
    name: NewName<Name, Types['steps']>,
    handler: Handler,
    options?: StepOptions & OutputOption<Output>,
  ): WorkflowBuilder<WithStep<Types, Name, Handler, Received<Output>>> {
    const given: unknown = name
    if (typeof given === 'function') {
      throw this.#invalid(undefined, 'the builder was awaited; call `build` and pass its result on')
    }
    return this.step(name, handler, options)
  }

  /**
   * How the step before it is undone: called when it has failed, or when the instance fails or is cancelled later and the
   * step has completed, or may have had an effect.
   */
  onFailure<Name extends string, Handler extends string>(
    name: NewName<Name, Types['steps']>,
    handler: Handler,
    options?: CompensationOptions,
  ): WorkflowBuilder<
    With<Types, { calls: Types['calls'] | Call<Handler, Types['before'], unknown, Types['current']> }>
  > {
    const last = this.#path.at(-1)
    if (last === undefined || (last.step.type !== 'task' && last.step.type !== 'human')) {
      throw this.#invalid(name, 'a compensation stands right after the step it undoes: a task or a human step')
    }
    if (compensationOf(last.step) !== undefined) {
      throw this.#invalid(name, `step \`${last.step.name}\` has a compensation already; a step has one`)
    }
    const priority = last.step.type === 'task' ? last.step.priority : 50
    const onFailure = checkCompensation(this.#where(name), { name, handler, priority }, options)
    return new WorkflowBuilder(this.#head, [...this.#path.slice(0, -1), { ...last, step: { ...last.step, onFailure } }])
  }

  /** Several branches at once; continues when all have ended, with the output of each under its first step's name. */
  parallel<Name extends string, Branches extends readonly Branch<Types, Name>[]>(
    name: NewName<Name, Types['steps']>,
    ...branches: Branches
  ): WorkflowBuilder<WithJoined<Types, Name, ReturnType<Branches[number]>>> {
    return this.#add({ name, type: 'parallel', branches: [] }, this.#branches(name, branches))
  }

  /** Several branches at once, which the `join` after it brings together. */
  fork<Name extends string, Branches extends readonly Branch<Types, Name>[]>(
    name: NewName<Name, Types['steps']>,
    ...branches: Branches
  ): WorkflowBuilder<WithJoined<Types, Name, ReturnType<Branches[number]>>> {
    return this.#add({ name, type: 'fork', branches: [] }, this.#branches(name, branches))
  }

  /**
   * Waits for the branches of the fork before it: for `all`, or for the first that succeeds (`any`; the others' active steps
   * are skipped). Its output has each branch's under the name of the branch's first step.
   */
  join<Name extends string, Strategy extends JoinStrategy>(
    name: NewName<Name, Types['steps']>,
    strategy: Strategy,
  ): WorkflowBuilder<With<Types, { steps: Types['steps'] | Name; current: JoinedBy<Types['current'], Strategy> }>> {
    const chosen = choiceOption(this.#where(name), 'strategy', strategy, ['all', 'any'])
    const last = this.#path.at(-1)
    // A parallel that is joined by name is a fork.
    const before: WorkflowBuilder<Types> =
      last?.step.type === 'parallel'
        ? new WorkflowBuilder(this.#head, [
            ...this.#path.slice(0, -1),
            { ...last, step: { ...last.step, type: 'fork' } },
          ])
        : this
    return before.#add({ name, type: 'join', strategy: chosen })
  }

  /** Once it is reached, nothing before it is undone. */
  savePoint<Name extends string>(
    name: NewName<Name, Types['steps']>,
  ): WorkflowBuilder<With<Types, { steps: Types['steps'] | Name; first: First<Types, Name> }>> {
    return this.#add({ name, type: 'save_point' })
  }

  /**
   * Continues if the condition is true for the input. It is a function over the fields of the input, or an expression as text (see
   * `parseCondition`); a function is called once, here, and what it records is stored as text. Where the condition is false, the else
   * branch is a path of its own that does not rejoin; without one, this branch (at top level: the instance) is complete.
   *
   * @example
   * .condition('large', (order) => order.total.gt(1000).and(order.kind.ne('gift')), (b) => b.step('ship', 'ShipOrder'))
   */
  condition<
    Name extends string,
    Else extends Typed<BuilderTypes> = Typed<With<BranchOf<Types, Name>, { steps: never }>>,
  >(
    name: NewName<Name, Types['steps']>,
    condition: string | ConditionFunction<Types['current']>,
    elseBranch?: (branch: WorkflowBuilder<BranchOf<Types, Name>>) => Else,
  ): WorkflowBuilder<
    With<WithBranches<Types, Name, Else>, { ends: Types['ends'] | EndOf<TypesOf<Else>>; before: Types['current'] }>
  > {
    const expression = this.#expression(name, condition)
    const otherwise = elseBranch === undefined ? [] : this.#branches(name, [elseBranch])
    return this.#add({ name, type: 'condition', expression }, [], otherwise[0])
  }

  /** Waits until a person confirms or rejects. Confirmed, its own input is passed on; rejected, the instance is aborted. */
  waitHumanConfirm<Name extends string>(
    name: NewName<Name, Types['steps']>,
    options?: { readonly metadata?: Metadata },
  ): WorkflowBuilder<
    With<
      Types,
      {
        steps: Types['steps'] | Name
        humans: Types['humans'] | Name
        before: Types['current']
        first: First<Types, Name>
      }
    >
  > {
    const where = this.#where(name)
    const given = checkOptions(where, options, ['metadata'])
    return this.#add({ name, type: 'human', ...checkMetadata(where, given.metadata) })
  }

  /** The definition as plain data; refuses an invalid graph, naming the step and the fix. */
  build(): Workflow<{
    input: Types['input']
    result: EndOf<Types>
    calls: Types['calls']
    humans: Types['humans']
    steps: Types['steps']
  }> {
    const { domain, type, name, version, settings, input } = this.#head
    const { dlq, lease } = settings
    const steps = checkSteps(name, flatten(name, this.#path))
    const workflow = { domain, type, name, version, dlq, ...(lease === undefined ? {} : { lease }), steps }
    if (input !== undefined) inputSchemas.set(workflow, input)
    return workflow
  }

  #expression(name: string, condition: unknown): string {
    if (typeof condition === 'string') return condition
    if (typeof condition !== 'function') {
      const problem = `its condition must be a function such as (order) => order.amount.gt(100), or a text such as {{ gt .amount 100 }}, not ${describe(condition)}`
      throw this.#invalid(name, problem)
    }
    try {
      return recordCondition(condition as (input: never) => unknown)
    } catch (error) {
      throw this.#invalid(
        name,
        `its condition cannot be recorded: ${error instanceof Error ? error.message : String(error)}`,
      )
    }
  }

  #add<Next extends BuilderTypes>(
    step: StepDefinition,
    branches: readonly Path[] = [],
    otherwise?: Path,
  ): WorkflowBuilder<Next> {
    const draft: Draft = { step, branches, ...(otherwise === undefined ? {} : { otherwise }) }
    return new WorkflowBuilder(this.#head, [...this.#path, draft])
  }

  #branches(name: string, branches: readonly unknown[]): Path[] {
    return branches.map((branch, index) => {
      if (typeof branch !== 'function') {
        throw this.#invalid(name, `branch ${index + 1} is ${describe(branch)}; give functions such as (b) => b.step(…)`)
      }
      const made: unknown = branch(new WorkflowBuilder(this.#head, []))
      if (made instanceof WorkflowBuilder) return made.#path
      const problem = `branch ${index + 1} returned ${describe(made)}; return the builder, as in (b) => b.step(…)`
      throw this.#invalid(name, problem)
    })
  }

  #where(step: string): string {
    return `workflow ${this.#head.name}, step \`${shown(step)}\``
  }

  #invalid(step: string | undefined, problem: string) {
    return invalidWorkflow(this.#head.name, step === undefined ? undefined : shown(step), problem)
  }
}
