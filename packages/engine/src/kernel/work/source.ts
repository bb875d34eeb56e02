/** One claimed item, and the epoch that its claim raised. */
export interface Claimed {
  readonly id: string
  /** The definition or handler that it belongs to. Claims name the types that they want. */
  readonly type: string
  readonly epoch: number
  /** Present if the previous claim did not end in order: its worker died, or its lease was lost. */
  readonly lost?: LostClaim
}

/** What is known of an item whose last claim did not end in order. */
export interface LostClaim {
  /** How often in a row, without progress, it was lost while it ran alone: only these losses are its own fault. */
  readonly alone: number
  /** How often in a row it was lost while other work ran beside it. */
  readonly shared: number
  /** Whether the last loss is its own: it ran alone. */
  readonly counted: boolean
  /** Its worker was stopped in order while its code ran. The outcome of the code is unknown, but this is not a loss. */
  readonly interrupted: boolean
  /** It had begun when its worker died; other items that were lost with it had not, or had run for longer. */
  readonly firstToTry: boolean
}

/** One type to claim, from its low watermark (milliseconds of the database's clock; null: from the beginning). */
export interface ClaimLane {
  readonly type: string
  readonly from: number | null
}

export interface ClaimRequest {
  readonly worker: string
  readonly limit: number
  readonly leaseMs: number
  /** In the order in which they may fill the limit. */
  readonly lanes: readonly ClaimLane[]
  /** Do not claim expired leases: after an outage their workers may live and not have had the time to extend them. */
  readonly spareLeased: boolean
  /** How far ahead to look for the next due time. */
  readonly ceilingMs: number
}

/** What the claim functions of all tables take last, in this order. */
export const claimParams = ({ worker, limit, leaseMs, spareLeased, ceilingMs }: ClaimRequest) => [
  worker,
  limit,
  leaseMs,
  spareLeased,
  ceilingMs,
]

export interface ClaimResult<Item extends Claimed> {
  readonly items: readonly Item[]
  /** How far the claim has read each type: the watermark of the next claim. */
  readonly marks: readonly { readonly type: string; readonly mark: number }[]
  /** Milliseconds until the next item falls due, if that is within the ceiling and the limit was not reached. */
  readonly nextDueMs: number | null
  /** How many items the claim itself has handled, of a source whose items need no code. */
  readonly handled?: number
}

export interface LeaseRef {
  readonly id: string
  readonly epoch: number
}

/**
 * The record of claims that did not end in order. A source whose items call user code has one. It is written only for items
 * whose last claim was lost, and when a worker stops while calls run: never for healthy work.
 */
export interface Losses {
  /** The item's code is about to begin, alone or beside other work; or other work is about to begin beside it. */
  begun(lease: LeaseRef, company: 'alone' | 'begun'): Promise<void>
  /** It ended in order. */
  forget(lease: LeaseRef): Promise<void>
  /**
   * The worker stops in order while the code of these items runs. Their leases are kept: the code may still be running, and
   * a second execution must not begin beside it.
   */
  interrupted(leases: readonly LeaseRef[]): Promise<void>
  /** Ends leases now: their code has ended, or never began, and has recorded nothing. The items still count as lost. */
  expire(leases: readonly LeaseRef[]): Promise<void>
}

/**
 * What a model gives to the loop: how to claim due items, extend their leases and release them. Each method is one
 * statement that never waits for a lock held by another transaction.
 */
export interface WorkSource<Item extends Claimed> {
  /** The model, for metrics and logs: `commands`, `processes`. */
  readonly model: string
  /** The types this worker has code for; read before every claim, so it may grow. */
  types(): readonly string[]
  claim(request: ClaimRequest): Promise<ClaimResult<Item>>
  /** Extends leases. Returns which were extended and which are lost; a row that another transaction has locked is in neither list. */
  extend(
    leases: readonly LeaseRef[],
    leaseMs: number,
  ): Promise<{ readonly extended: readonly string[]; readonly lost: readonly string[] }>
  /** Releases items that were claimed and never begun: they are due at once, as if they had not been claimed. */
  release(leases: readonly LeaseRef[]): Promise<void>
  /** Only for a source whose items call user code: the record of claims that did not end in order. */
  readonly losses?: Losses
  /** Seconds since the oldest due item of these types fell due; null when nothing is due. */
  oldestDueSeconds(): Promise<number | null>
}
