import type { System } from '../../harness/workload.js'

/** The type of the process, and the queue where a library wants one. */
export const PROCESS = 'bench'

/** The places from here on are those of processes that ran before anything was measured. */
export const FIRST_OF_BEFORE = 1_000_000_000

/** What a process of a workload does: written once, run by every library. `place` is what it was started with. */
export type Body = (tools: Tools, place: number) => Promise<void>

/** What a process is made of, in the words of no library. */
interface Tools {
  /** A no-op whose result is recorded. */
  readonly step: (name: string) => Promise<unknown>
  /** Waits, without a worker if the library can, until a response comes from outside. */
  readonly response: () => Promise<unknown>
}

/** A library that runs processes, with one configuration. */
export interface ProcessLibrary extends Pick<System, 'name' | 'version' | 'role' | 'config' | 'anythingLeft'> {
  /** SQL with one row and one column: how many processes wait for a response? */
  readonly waiting: string
  readonly install: (connectionString: string) => Promise<void>
  /** Starts so many processes for a worker, with the places from `from` on. */
  readonly fill: (connectionString: string, processes: number, from: number) => Promise<void>
  /** Connects; nothing runs yet. */
  readonly open: (connectionString: string, body: Body) => Promise<ProcessHost>
}

/** One worker process of a library, which also starts processes and responds to them. */
export interface ProcessHost {
  /** Begins to take the processes that wait for a worker. */
  run(): Promise<void>
  /** Starts one in the fastest way the library has; returns its id. */
  start(place: number): Promise<string>
  /** Resolves when the database says that it is completed. */
  ended(id: string): Promise<unknown>
  /** Called before responses are sent, and before the clock starts. */
  learnIds?(): Promise<void>
  /** Responds to all processes that wait, which have these places, in the fastest way the library has. */
  respondAll(places: readonly number[]): Promise<void>
  close(): Promise<void>
}
