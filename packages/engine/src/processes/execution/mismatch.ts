/** The code does not meet its recorded history (P-18): what was recorded, and what was found instead. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch'

  constructor(recorded: string, found: string) {
    super(`recorded ${recorded}, found ${found}`)
  }
}

/** The record cannot be followed: a reducer throws, a result cannot be decoded. It would be no different the next time. */
export class Unfollowable extends Error {
  override readonly name = 'Unfollowable'
}

/** For what follows the record and touches nothing else. */
export async function following<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (cause) {
    throw cause instanceof Mismatch ? cause : new Unfollowable('the record cannot be followed', { cause })
  }
}
