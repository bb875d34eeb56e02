import type { Better, Role } from './comparison.js'

/** One kind of work, done by several systems side by side. To add one: a folder below `workloads`, named in its index. */
export interface Workload {
  readonly name: string
  /** What `value` counts: `items/s`. */
  readonly unit: string
  /** More of it is better unless said otherwise. */
  readonly better?: Better
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
  /** Systems are compared within their group: a way of sending, a number of processes. */
  readonly group?: string
  /** Its group is compared with this one, not with the best peer. */
  readonly baseline?: boolean
  /** Which part of the items it goes through, so that a slow way does not take minutes; all of them unless given. */
  readonly share?: number
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
  /** What the work has shown, where that is not items per second. */
  figures?(): Figures
  /** Microseconds of CPU so far of processes that it has started. */
  moreCpu?(): number
  close(): Promise<void>
}

export interface Figures {
  readonly value: number
  /** More in the same unit, as further columns: `{ p95: 4.1 }`. */
  readonly details?: Readonly<Record<string, number>>
  /** What costs are divided by, if not the task's items. */
  readonly costItems?: number
}
