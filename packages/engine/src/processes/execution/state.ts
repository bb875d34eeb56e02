import type { Codec } from '../../kernel/codec/codec.js'
import type { ClaimedProcess } from '../queries/claim-processes.js'
import { Calls } from './calls.js'
import type { FinalDecision } from './decisions.js'
import type { ProcessState } from './process-state.js'

/** How `execute` ended. */
export type Ending = { readonly value: unknown } | { readonly error: unknown }

export interface Continuation {
  readonly state: unknown
  readonly keepEffects: boolean
}

/** How often a compensation has failed since it began, or since an operator's retry; whether it is done or given up. */
export interface Compensation {
  attempts: number
  nextAt: number | undefined
  progress: 'retrying' | 'done' | 'failed'
  /** What its last attempt failed with. */
  problem: string | undefined
}

/** Everything that an execution knows and decides by: what its events have made of it. Only `apply` writes to it. */
export class ExecutionState {
  readonly calls = new Calls()
  /** The state of the process, as user code sees it. */
  readonly data: ProcessState
  readonly codec: Codec
  readonly compensations = new Map<string, Compensation>()
  /** What `ctx.now()` returns. Not the time of the last record: user code may run while a call that it does not await is recorded. */
  time: number
  cancel: 'PLAIN' | 'COMPENSATE' | null
  ending: Ending | undefined
  continuation: Continuation | undefined
  /** The beginning of the compensation is on record. */
  unwinding: Extract<FinalDecision, { to: 'UNWIND' }> | undefined
  finalDecision: FinalDecision | undefined

  constructor(data: ProcessState, codec: Codec, { startAt, cancel }: Pick<ClaimedProcess, 'startAt' | 'cancel'>) {
    this.data = data
    this.codec = codec
    this.time = startAt
    this.cancel = cancel
  }
}

/** User code has said how it ends. What was begun is awaited and recorded, and changes nothing of that. */
export const isOver = ({ ending, continuation }: ExecutionState): boolean =>
  ending !== undefined || continuation !== undefined
