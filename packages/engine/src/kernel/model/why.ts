/** Why a piece of work does not continue at the moment, or that it has ended. */
export interface Why {
  /**
   * `ended`; `running`: a worker has it; `notDue`: it will continue at a known time; `paused`: by an operator; `waiting`: for a
   * response, a reply, a child or a decision; `rateLimited`; `noWorker`: no live worker can run it; `needsPerson`; `queued`: it is
   * due and waits for its turn.
   */
  readonly reason:
    | 'ended'
    | 'running'
    | 'notDue'
    | 'paused'
    | 'waiting'
    | 'rateLimited'
    | 'noWorker'
    | 'needsPerson'
    | 'queued'
  /** One sentence for people, with the names and times that matter. */
  readonly text: string
  /** When it continues by itself at the latest: its due time, its timeout, or the end of its lease. */
  readonly at?: Date
}
