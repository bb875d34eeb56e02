import type { System, Task } from '../../harness/workload.js'

/** One worker process of a library. */
interface Drainer {
  /** Begins to take jobs. */
  start(): Promise<void>
  close(): Promise<void>
}

/** A library with one configuration, before it is said how many processes it gets. */
export interface DrainingLibrary
  extends Pick<System, 'name' | 'version' | 'role' | 'config' | 'anythingLeft' | 'prepare'> {
  /** Connects. `handled` is to be called for every job that its handler has seen, or for several at once. */
  open(task: Task, handled: (jobs: number) => void): Promise<Drainer>
}
