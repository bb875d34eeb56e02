import type { Duration, Holdfast } from 'holdfast'
import type { Sql } from '../kit/sql.js'
import type { Registrable, TestKit } from '../kit/test-kit.js'
import type { KillAt } from './kill-points.js'

/** How a run has ended, for the invariant. */
export interface CrashEnd<World, Subject> {
  /** The installation after the run; its `drain` runs no more than there is. */
  readonly kit: TestKit
  readonly hf: Holdfast
  readonly sql: Sql
  /** What `start` answered. */
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
  /** Starts what is tested. Killed in between, it is called again: give it a key or an id, as you do in production. */
  readonly start: (hf: Holdfast, world: World) => Promise<Subject>
  /**
   * Cancels it. Given, every kill is tried twice: gone on with, and cancelled before another worker goes on. One that has
   * ended by then refuses it, which is fine.
   */
  readonly cancel?: (hf: Holdfast, subject: Subject, world: World) => Promise<unknown>
  /** What comes from outside, in order: each is delivered twice, out of order, early and late. Give it a `responseId`. */
  readonly respond?: (hf: Holdfast, subject: Subject, world: World) => readonly (() => Promise<unknown>)[]
  /** Throws when the end is not as it must be, whatever happened on the way. */
  readonly invariant: (end: CrashEnd<World, Subject>) => unknown
  /**
   * Before and after everything that is recorded and every call of your code (`every-step`, default), or between any two
   * statements.
   */
  readonly killAt?: KillAt
  /** The most kills to try, spread evenly from the first point to the last; all of them unless given. */
  readonly kills?: number
  /** In how many mixed orders the responses come, besides the right one; 1 unless given. */
  readonly seeds?: number
  /** Reruns exactly one run: the seed that a failing one has printed. */
  readonly seed?: string
  /** A built file that calls `crashWorker`: workers are processes of their own, ended by SIGKILL. */
  readonly worker?: URL
  /** How many runs go on at once, 4 unless given. */
  readonly lanes?: number
  /** How long each drain of a run may take. Default: 60 s. */
  readonly timeout?: Duration
}
