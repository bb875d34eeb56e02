/** One claimed thing: what it is, and the epoch that its claim raised (K-02). */
export interface Claimed {
  readonly id: string
  /** The definition or handler it belongs to: what claims go by (K-17). */
  readonly type: string
  readonly epoch: number
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
  /** Seconds since the oldest due item of these types fell due; null when nothing is due. */
  oldestDueSeconds(): Promise<number | null>
}
