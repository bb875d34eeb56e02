import type { Observed } from './costs/observer.js'
import type { Measurement } from './measure.js'
import type { SystemOptions, Task } from './workload.js'

/** What a child process is told to do: one phase of one system, named by its place, since functions cannot be sent. */
export type Order = PrepareOrder | MeasureOrder

interface Whom {
  readonly workload: string
  readonly options: SystemOptions
  readonly system: number
  readonly task: Task
}

export interface PrepareOrder extends Whom {
  readonly phase: 'prepare'
}

export interface MeasureOrder extends Whom {
  readonly phase: 'measure'
  readonly observed: Observed
}

/** The result that it sends before it ends. */
export type Answer =
  | { readonly phase: 'prepare' }
  | { readonly phase: 'measure'; readonly measurement: Measurement }
  | { readonly phase: 'failed'; readonly problem: string }

export function isAnswer(message: unknown): message is Answer {
  return typeof message === 'object' && message !== null && 'phase' in message
}
