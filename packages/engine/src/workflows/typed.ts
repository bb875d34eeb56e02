// The types that the builder carries along: what each step receives and returns, and what handlers and starters must therefore give.
// Nothing of it exists at run time, where a workflow is plain data. `define.ts`, `registering.ts` and `client.ts` use them.

import type { StepHandler } from './context.js'
import type { JoinStrategy, WorkflowDefinition } from './definition/definition.js'

/** A call that a workflow makes. `undone` is what a compensation finds in `ctx.output`: the output of the step that it undoes. */
interface CallType {
  readonly handler: string
  readonly input: unknown
  readonly output: unknown
  readonly undone: unknown
}

export interface Call<Handler extends string, Input, Output, Undone = unknown> {
  readonly handler: Handler
  readonly input: Input
  readonly output: Output
  readonly undone: Undone
}

/** The types of the part that was built so far. */
export interface BuilderTypes {
  readonly steps: string
  readonly calls: CallType
  readonly humans: string
  /** The input of a start. */
  readonly input: unknown
  /** What the next step is given, and what the step before it was given. */
  readonly current: unknown
  readonly before: unknown
  /** What it may end with before the end of the path: at conditions. */
  readonly ends: unknown
  /** The first step: branches are known by it. */
  readonly first: string
}

/** Whatever carries types: a builder, or a built workflow. */
export interface Typed<Types> {
  /** Never there; carries the types. */
  readonly types?: Types
}

export type With<Types, Change> = {
  readonly [Name in keyof Types]: Name extends keyof Change ? Change[Name] : Types[Name]
}

export type First<Types extends BuilderTypes, Name> = [Types['first']] extends [never] ? Name : Types['first']

/** A name that is not taken; names that only run time knows are looked at by `build`. */
export type NewName<Name extends string, Taken extends string> = string extends Taken
  ? Name
  : Name extends Taken
    ? `the name ${Name} is taken`
    : Name

/** What a branch begins with. */
export type BranchOf<Types extends BuilderTypes, Name extends string> = With<
  Types,
  { steps: Types['steps'] | Name; calls: never; humans: never; before: unknown; ends: never; first: never }
>

export type TypesOf<B> = B extends Typed<infer Types> ? (Types extends BuilderTypes ? Types : never) : never
/** What a branch ends with. */
export type EndOf<Types extends BuilderTypes> = Types['ends'] | Types['current']

/** The output of each branch, under the name of its first step. */
export type Joined<Branch> = {
  readonly [B in Branch as TypesOf<B>['first']]: EndOf<TypesOf<B>>
}
export type JoinedBy<Current, Strategy extends JoinStrategy> = 'any' extends Strategy ? Partial<Current> : Current

/** What the types of some branches add to those of the path that they are in. */
export type WithBranches<Types extends BuilderTypes, Name extends string, Branch> = With<
  Types,
  {
    steps: Types['steps'] | Name | TypesOf<Branch>['steps']
    calls: Types['calls'] | TypesOf<Branch>['calls']
    humans: Types['humans'] | TypesOf<Branch>['humans']
    first: First<Types, Name>
  }
>

/** What a step adds that a handler does. */
export type WithStep<Types extends BuilderTypes, Name extends string, Handler extends string, Output> = With<
  Types,
  {
    steps: Types['steps'] | Name
    calls: Types['calls'] | Call<Handler, Types['current'], Output>
    before: Types['current']
    current: Output
    first: First<Types, Name>
  }
>

/** What branches add whose outputs the next step is given. */
export type WithJoined<Types extends BuilderTypes, Name extends string, Branch> = With<
  WithBranches<Types, Name, Branch>,
  { before: Types['current']; current: Joined<Branch> }
>

/** What is known of a built workflow. */
export interface WorkflowTypes {
  readonly input: unknown
  readonly result: unknown
  readonly calls: CallType
  readonly humans: string
  readonly steps: string
}

/** A built workflow: plain data, with its types known to the compiler. */
export interface Workflow<Types extends WorkflowTypes = WorkflowTypes> extends WorkflowDefinition, Typed<Types> {}

type CallOf<Calls extends CallType, Handler> = Extract<Calls, { readonly handler: Handler }>

/** The handlers of a workflow, each with the types of the steps that it is called for. */
export type HandlersFor<Calls extends CallType> = {
  readonly [Handler in Calls['handler']]?: StepHandler<
    CallOf<Calls, Handler>['input'],
    CallOf<Calls, Handler>['output'],
    CallOf<Calls, Handler>['undone']
  >
}
