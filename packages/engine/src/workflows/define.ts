// What users declare with `defineWorkflow`: the builder, its types, and the definition that it builds. The client, the
// registry and the worker use the built definition. The builder's types are public API: they carry the input and output
// of each step to handlers and results.

import { describe, shown } from '../kernel/validation/describe.js'
import { checkOptions, choiceOption } from '../kernel/validation/options.js'
import { checkSteps } from './definition/check.js'
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

/** A built workflow: plain data, with the names of its steps, handlers and human steps known to the compiler. */
export interface Workflow<
  Steps extends string = string,
  Handlers extends string = string,
  Humans extends string = string,
> extends WorkflowDefinition,
    Names<Steps, Handlers, Humans> {}

interface Names<Steps, Handlers, Humans> {
  /** Never there; carries the names. */
  readonly names?: { readonly steps: Steps; readonly handlers: Handlers; readonly humans: Humans }
}

type AnyNames = Names<string, string, string>
type StepsOf<B> = B extends Names<infer Steps, infer _H, infer _U> ? Steps : never
type HandlersOf<B> = B extends Names<infer _S, infer Handlers, infer _U> ? Handlers : never
type HumansOf<B> = B extends Names<infer _S, infer _H, infer Humans> ? Humans : never

/** A name that is not taken; names that only run time knows are looked at by `build`. */
type NewName<Name extends string, Taken extends string> = string extends Taken
  ? Name
  : Name extends Taken
    ? `the name ${Name} is taken`
    : Name

type Branch<Taken extends string> = (branch: WorkflowBuilder<Taken, never, never>) => AnyNames

interface Head {
  readonly domain: string
  readonly type: string
  readonly name: string
  readonly version: number
  readonly settings: WorkflowSettings
}

/**
 * Declares a workflow: a saga as a graph of named steps. What a step returns is the input of the next. Each call returns a
 * new builder and leaves the one it was called on as it was; branches return theirs.
 *
 * @example
 * const Order = defineWorkflow('shop', 'order', { version: 2 })
 *   .step('charge', 'ChargeCard').onFailure('refund', 'RefundCard', { retry: { maxAttempts: 5 } })
 *   .fork('fulfil', (b) => b.step('ship', 'ShipOrder'), (b) => b.step('invoice', 'SendInvoice'))
 *   .join('fulfilled', 'all')
 *   .build()
 */
export function defineWorkflow(
  domain: string,
  type: string,
  options: WorkflowOptions = {},
): WorkflowBuilder<never, never, never> {
  const name = `${shown(domain)}/${shown(type)}`
  const where = `defineWorkflow ${name}`
  const problem = nameProblem(domain) ?? workflowTypeProblem(type)
  if (problem !== undefined) throw invalidWorkflow(name, undefined, problem)
  const settings = checkWorkflowOptions(where, options)
  const version = checkVersion(where, options.version ?? 1)
  return new WorkflowBuilder({ domain, type, name: `${domain}/${type}`, version, settings }, [])
}

export class WorkflowBuilder<Steps extends string, Handlers extends string, Humans extends string>
  implements Names<Steps, Handlers, Humans>
{
  declare readonly names?: { readonly steps: Steps; readonly handlers: Handlers; readonly humans: Humans }
  readonly #head: Head
  readonly #path: Path

  /** @internal Use `defineWorkflow`. */
  constructor(head: Head, path: Path) {
    this.#head = head
    this.#path = path
  }

  /** A step that a handler does; it is registered under this name in whatever service has it. */
  step<Name extends string, Handler extends string>(
    name: NewName<Name, Steps>,
    handler: Handler,
    options?: StepOptions,
  ): WorkflowBuilder<Steps | Name, Handlers | Handler, Humans> {
    const { maxAttempts, retry } = this.#head.settings
    const defaults = { maxAttempts, ...(retry === undefined ? {} : { retry }), priority: 50 }
    const call = checkCall(this.#where(name), handler, options, defaults)
    return this.#add({ name, type: 'task', ...call })
  }

  /** The same as `step`. */
  // The rule W-01 has this name; awaiting a builder by mistake is refused below.
  /* oxlint-disable-next-line unicorn/no-thenable */ // biome-ignore lint/suspicious/noThenProperty: as above
  then<Name extends string, Handler extends string>(
    name: NewName<Name, Steps>,
    handler: Handler,
    options?: StepOptions,
  ): WorkflowBuilder<Steps | Name, Handlers | Handler, Humans> {
    const given: unknown = name
    if (typeof given === 'function') {
      throw this.#invalid(undefined, 'the builder was awaited; call `build` and pass its result on')
    }
    return this.step(name, handler, options)
  }

  /**
   * How the step before it is undone: called when it has failed, or when the instance fails or is cancelled later and the
   * step has completed, or may have had an effect all the same.
   */
  onFailure<Name extends string, Handler extends string>(
    name: NewName<Name, Steps>,
    handler: Handler,
    options?: CompensationOptions,
  ): WorkflowBuilder<Steps, Handlers | Handler, Humans> {
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

  /** Several branches at once; goes on when all have ended, with the output of each under its first step's name. */
  parallel<Name extends string, Branches extends readonly Branch<Steps | Name>[]>(
    name: NewName<Name, Steps>,
    ...branches: Branches
  ): WorkflowBuilder<
    Steps | Name | StepsOf<ReturnType<Branches[number]>>,
    Handlers | HandlersOf<ReturnType<Branches[number]>>,
    Humans | HumansOf<ReturnType<Branches[number]>>
  > {
    return this.#add({ name, type: 'parallel', branches: [] }, this.#branches(name, branches))
  }

  /** Several branches at once, which the `join` after it brings together. */
  fork<Name extends string, Branches extends readonly Branch<Steps | Name>[]>(
    name: NewName<Name, Steps>,
    ...branches: Branches
  ): WorkflowBuilder<
    Steps | Name | StepsOf<ReturnType<Branches[number]>>,
    Handlers | HandlersOf<ReturnType<Branches[number]>>,
    Humans | HumansOf<ReturnType<Branches[number]>>
  > {
    return this.#add({ name, type: 'fork', branches: [] }, this.#branches(name, branches))
  }

  /**
   * Waits for the branches of the fork before it: for `all`, or for the first that succeeds (`any`; the others' active steps
   * are skipped). Its output has each branch's under the name of the branch's first step.
   */
  join<Name extends string>(
    name: NewName<Name, Steps>,
    strategy: JoinStrategy,
  ): WorkflowBuilder<Steps | Name, Handlers, Humans> {
    const chosen = choiceOption(this.#where(name), 'strategy', strategy, ['all', 'any'])
    const last = this.#path.at(-1)
    // A parallel that is joined by name is a fork.
    const before: WorkflowBuilder<Steps, Handlers, Humans> =
      last?.step.type === 'parallel'
        ? new WorkflowBuilder(this.#head, [
            ...this.#path.slice(0, -1),
            { ...last, step: { ...last.step, type: 'fork' } },
          ])
        : this
    return before.#add({ name, type: 'join', strategy: chosen })
  }

  /** Once it is reached, nothing before it is undone. */
  savePoint<Name extends string>(name: NewName<Name, Steps>): WorkflowBuilder<Steps | Name, Handlers, Humans> {
    return this.#add({ name, type: 'save_point' })
  }

  /**
   * Goes on where the expression is true of the input (see `parseCondition`). Where it is false, the else branch is a side
   * path that ends where it ends; without one, this branch (at top level: the instance) is complete.
   */
  condition<Name extends string, Else extends AnyNames = Names<never, never, never>>(
    name: NewName<Name, Steps>,
    expression: string,
    elseBranch?: (branch: WorkflowBuilder<Steps | Name, never, never>) => Else,
  ): WorkflowBuilder<Steps | Name | StepsOf<Else>, Handlers | HandlersOf<Else>, Humans | HumansOf<Else>> {
    if (typeof expression !== 'string') {
      throw this.#invalid(
        name,
        `its expression must be a text such as {{ gt .amount 100 }}, not ${describe(expression)}`,
      )
    }
    const otherwise = elseBranch === undefined ? [] : this.#branches(name, [elseBranch])
    return this.#add({ name, type: 'condition', expression }, [], otherwise[0])
  }

  /** Waits until a person confirms or rejects. Confirmed, its own input goes on; rejected, the instance is aborted. */
  waitHumanConfirm<Name extends string>(
    name: NewName<Name, Steps>,
    options?: { readonly metadata?: Metadata },
  ): WorkflowBuilder<Steps | Name, Handlers, Humans | Name> {
    const where = this.#where(name)
    const given = checkOptions(where, options, ['metadata'])
    return this.#add({ name, type: 'human', ...checkMetadata(where, given.metadata) })
  }

  /** The definition as plain data; refuses what can never work, naming the step and the fix. */
  build(): Workflow<Steps, Handlers, Humans> {
    const { domain, type, name, version, settings } = this.#head
    const { dlq, lease } = settings
    const steps = checkSteps(name, flatten(name, this.#path))
    return { domain, type, name, version, dlq, ...(lease === undefined ? {} : { lease }), steps }
  }

  #add<S extends string, H extends string, U extends string>(
    step: StepDefinition,
    branches: readonly Path[] = [],
    otherwise?: Path,
  ): WorkflowBuilder<S, H, U> {
    const draft: Draft = { step, branches, ...(otherwise === undefined ? {} : { otherwise }) }
    return new WorkflowBuilder(this.#head, [...this.#path, draft])
  }

  #branches<Taken extends string>(name: string, branches: readonly Branch<Taken>[]): Path[] {
    return branches.map((branch: unknown, index) => {
      if (typeof branch !== 'function') {
        throw this.#invalid(name, `branch ${index + 1} is ${describe(branch)}; give functions such as (b) => b.step(…)`)
      }
      const made: unknown = branch(new WorkflowBuilder(this.#head, []))
      if (made instanceof WorkflowBuilder) return made.#path
      const problem = `branch ${index + 1} answered ${describe(made)}; return the builder, as in (b) => b.step(…)`
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
