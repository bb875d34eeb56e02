/** The code does not fit its recorded history: what was recorded, and what was found instead. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch'

  constructor(recorded: string, found: string) {
    super(`recorded ${recorded}, found ${found}`)
  }
}

/** The record cannot be replayed: a reducer throws, or a result cannot be decoded. The next replay would fail too. */
export class ReplayFailed extends Error {
  override readonly name = 'ReplayFailed'
}

/** For work that replays the record and touches nothing else. */
export async function replaying<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (cause) {
    throw cause instanceof Mismatch ? cause : new ReplayFailed('the record cannot be replayed', { cause })
  }
}
