import type { Duration, Holdfast } from 'holdfast'
import type { Sql } from '../kit/sql.js'
import type { Registrable, TestKit } from '../kit/test-kit.js'
import type { KillAt } from './kill-points.js'

/** How a run has ended, for the invariant. */
export interface CrashEnd<World, Subject> {
  /** The installation after the run. */
  readonly kit: TestKit
  readonly hf: Holdfast
  readonly sql: Sql
  /** What `start` returned. */
  readonly subject: Subject
  readonly world: World
  /** Whether a worker was killed in this run. */
  readonly killed: boolean
  /** Whether `cancel` was called after that. */
  readonly cancelled: boolean
}

export interface CrashTestOptions<World, Subject> {
  /** The external systems, created for every run: fake services that record their calls. They survive the kills. */
  readonly world?: (sql: Sql) => World | Promise<World>
  /** Processes and managers; a function where they are made of the world. */
  readonly register?: readonly Registrable[] | ((world: World) => readonly Registrable[])
  /** Whatever else your workers do when they start: handlers of commands, more definitions. */
  readonly setup?: (hf: Holdfast, world: World) => void
  /** Your own tables: SQL that is run once, before all runs. */
  readonly prepare?: string
  /** Starts the tested work. After a kill it is called again: pass a key or an id, as you do in production. */
  readonly start: (hf: Holdfast, world: World) => Promise<Subject>
  /**
   * Cancels the work. If given, every kill is tried twice: continued, and cancelled before another worker continues. Work that has
   * ended by then refuses the cancel, which is expected.
   */
  readonly cancel?: (hf: Holdfast, subject: Subject, world: World) => Promise<unknown>
  /** Responses from outside, in order: each is delivered twice, out of order, early and late. Pass a `responseId`. */
  readonly respond?: (hf: Holdfast, subject: Subject, world: World) => readonly (() => Promise<unknown>)[]
  /** Throws if the end is wrong, whatever happened before. */
  readonly invariant: (end: CrashEnd<World, Subject>) => unknown
  /**
   * Before and after everything that is recorded and every call of your code (`every-step`, default), or between any two
   * statements.
   */
  readonly killAt?: KillAt
  /** How many kills to try at most, spread evenly from the first point to the last. Default: all. */
  readonly kills?: number
  /** In how many random orders the responses come, besides the right one. Default: 1. */
  readonly seeds?: number
  /** Reruns exactly one run: the seed that a failing one has printed. */
  readonly seed?: string
  /** A built file that calls `crashWorker`: workers are processes of their own, ended by SIGKILL. */
  readonly worker?: URL
  /** How many runs go on at once. Default: 4. */
  readonly lanes?: number
  /** How long each drain of a run may take. Default: 60 s. */
  readonly timeout?: Duration
}
