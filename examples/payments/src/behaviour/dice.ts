import { createHash } from 'node:crypto'

/**
 * Numbers from 0 up to 1 that look random and are the same for the same words: what happens to the seventh payment of a
 * batch at its second call of the risk service depends on the seed alone, not on who runs it when.
 *
 * @example
 * const dice = diceOf('42', 7, 'bookRisk', 2)
 * dice() // 0.6012…
 */
export function diceOf(...words: readonly (string | number)[]): () => number {
  let rolled = 0
  return () => {
    rolled += 1
    const digest = createHash('sha256')
      .update([...words, rolled].join(' '))
      .digest()
    return digest.readUInt32BE(0) / 2 ** 32
  }
}
