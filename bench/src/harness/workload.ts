import type { Role } from './comparison.js'

/** One kind of work, done by several systems side by side. To add one: a folder below `workloads`, named in its index. */
export interface Workload {
  readonly name: string
  /** What `value` counts: `items/s`. */
  readonly unit: string
  /** One sentence for `--list`. */
  readonly measures: string
  /** How many items a measurement goes through unless `--items` says otherwise. */
  readonly items: number
  readonly systems: (options: SystemOptions) => readonly System[]
}

export interface SystemOptions {
  /** `--concurrency`: instead of the concurrencies that the workload would compare. */
  readonly concurrency?: number
}

/** One competitor with one configuration. To add one: a file beside the others of its workload. */
export interface System {
  readonly name: string
  readonly version: string
  readonly config: Readonly<Record<string, string | number | boolean>>
  readonly role: Role
  /**
   * SQL with one row and one boolean column: is anything left to do? The clock stops when the database says no, not
   * when the system believes it.
   */
  readonly anythingLeft: string
  /** Fills the fresh database. In a process of its own, so that it costs the measured one neither memory nor time. */
  prepare(task: Task): Promise<void>
  /** Connects, before the clock starts. */
  open(task: Task): Promise<Run>
}

export interface Task {
  /** A fresh database that nobody else uses. */
  readonly connectionString: string
  readonly items: number
}

export interface Run {
  /** The measured part. Resolves when the system believes that all items are done. */
  work(): Promise<void>
  close(): Promise<void>
}
