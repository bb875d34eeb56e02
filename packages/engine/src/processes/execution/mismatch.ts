/** The code does not meet its recorded history (P-18): what was recorded, and what was found instead. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch'

  constructor(recorded: string, found: string) {
    super(`recorded ${recorded}, found ${found}`)
  }
}
