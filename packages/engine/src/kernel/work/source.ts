/** One claimed thing: what it is, and the epoch that its claim raised (K-02). */
export interface Claimed {
  readonly id: string
  /** The definition or handler it belongs to: what claims go by (K-17). */
  readonly type: string
  readonly epoch: number
  /** There where the claim before this one was not released in order: its worker died, or its lease was lost. */
  readonly lost?: LostClaim
}

/** What is known of an item whose last claim was not released in order (K-26). */
export interface LostClaim {
  /** How often in a row, without any progress, it was lost while it ran alone: only then is it to blame. */
  readonly alone: number
  /** How often in a row it was lost while other work ran beside it. */
  readonly shared: number
  /** Whether the last loss is its own: it ran alone. */
  readonly counted: boolean
  /** Its worker was stopped in order while its code ran. What the code did is unknown, and nobody is to blame. */
  readonly interrupted: boolean
  /** It had begun when its worker died; others that were lost with it had not, or ran for longer. */
  readonly firstToTry: boolean
}

/** One type to claim, from its low watermark (milliseconds of the database's clock; null: look at everything). */
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
  /** Leave expired leases alone: after an outage their workers may live, and have not had the time to extend (K-03). */
  readonly spareLeased: boolean
  /** How far ahead to look for the next due time. */
  readonly ceilingMs: number
}

export interface ClaimAnswer<Item extends Claimed> {
  readonly items: readonly Item[]
  /** Up to where each type was looked through, for the watermark of the next claim (K-17). */
  readonly marks: readonly { readonly type: string; readonly mark: number }[]
  /** Milliseconds until the next item falls due, if that is within the ceiling and there was room for more. */
  readonly nextDueMs: number | null
  /** How many items the claim itself has dealt with, of a source that needs no code to run them. */
  readonly dealtWith?: number
}

export interface LeaseRef {
  readonly id: string
  readonly epoch: number
}

/**
 * The record of claims that were not released in order (K-26). A source whose items call code of the user has one. It is
 * written only around items whose last claim was lost, and when a worker is stopped while calls run: never on the way of
 * work that is well.
 */
export interface Losses {
  /** The item's code is about to begin, with nothing beside it or in company; or company is about to begin. */
  begun(lease: LeaseRef, company: 'alone' | 'begun'): Promise<void>
  /** It ended in order. */
  forget(lease: LeaseRef): Promise<void>
  /**
   * The worker is stopped in order while the code of these runs. Their leases are kept: the code may still be running, and
   * a second execution must not begin beside it.
   */
  interrupted(leases: readonly LeaseRef[]): Promise<void>
  /** Ends leases now: their code has ended, or never began, and has left no record. They stay not released. */
  expire(leases: readonly LeaseRef[]): Promise<void>
}

/**
 * What a model gives to the loop (K-01): how to claim what is due, keep it, and give it back. Everything in a source is
 * one statement that never waits for a row somebody else holds.
 */
export interface WorkSource<Item extends Claimed> {
  /** The model, for metrics and logs: `commands`, `processes`. */
  readonly model: string
  /** The types this worker has code for; read before every claim, so it may grow. */
  types(): readonly string[]
  claim(request: ClaimRequest): Promise<ClaimAnswer<Item>>
  /** Moves the leases' ends; answers which are lost. Rows that somebody holds are skipped and named in neither list. */
  extend(
    leases: readonly LeaseRef[],
    leaseMs: number,
  ): Promise<{ readonly extended: readonly string[]; readonly lost: readonly string[] }>
  /** Gives back what was claimed and never begun: due at once, as if it had not been claimed. */
  release(leases: readonly LeaseRef[]): Promise<void>
  /** Of a source whose items call code of the user: the record of claims that were not released in order. */
  readonly losses?: Losses
  /** Seconds since the oldest due item of these types fell due; null when nothing is due. */
  oldestDueSeconds(): Promise<number | null>
}
