import * as holdfastPackage from 'holdfast'

// What the benchmarks use of Holdfast's processes. Not in this build yet: as long as `defineProcess` is missing, Holdfast
// takes no part in the process-* workloads. When it is there, its own types take over and this file goes.

interface Schema<T> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => { readonly value: unknown }
    readonly types?: { readonly input: T; readonly output: T }
  }
}

export interface BenchState {
  readonly place: number
  answer?: string
}

interface ProcessContext {
  step(name: string, options: { run: () => Promise<unknown> }): Promise<unknown>
  wait(name: string, condition: () => boolean, options: { timeout: '1h' }): Promise<unknown>
}

interface Definition {
  readonly state: Schema<BenchState>
  readonly responses: {
    readonly answered: { readonly data: Schema<string>; readonly apply: (state: BenchState, data: string) => void }
  }
  execute(ctx: ProcessContext, state: BenchState): Promise<void>
}

export interface ProcessDefinition {
  readonly type: string
}

interface ProcessClient {
  register(definition: ProcessDefinition): void
  start(definition: ProcessDefinition, state: BenchState): Promise<{ readonly id: string }>
  startMany(definition: ProcessDefinition, starts: readonly { readonly state: BenchState }[]): Promise<unknown>
  respond(
    definition: ProcessDefinition,
    id: string,
    response: 'answered',
    data: string,
    options: { readonly responseId: string },
  ): Promise<unknown>
  readonly processes: {
    result(definition: ProcessDefinition, id: string, options: { readonly timeout: '1m' }): Promise<unknown>
  }
  run(options: { readonly concurrency: number }): Promise<unknown>
  close(): Promise<void>
}

export interface ProcessEngine {
  defineProcess(domain: string, type: string, definition: Definition): ProcessDefinition
  holdfast(options: { readonly connectionString: string }): Promise<ProcessClient>
}

function runsProcesses(engine: object): engine is ProcessEngine {
  return 'defineProcess' in engine
}

/** Undefined in a build without processes. */
export const processEngine: ProcessEngine | undefined = runsProcesses(holdfastPackage) ? holdfastPackage : undefined

/** Takes everything: what the others do not check is not checked here either. */
export function noCheck<T>(): Schema<T> {
  return { '~standard': { version: 1, vendor: 'bench', validate: (value) => ({ value }) } }
}
