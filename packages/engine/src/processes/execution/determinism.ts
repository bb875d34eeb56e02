import { createHash } from 'node:crypto'
import { derivedId } from '../../kernel/ids/derived-id.js'

/** Random numbers and ids that come out the same on every replay: derived from the process and how many came before. */
export function createDeterminism(seed: string) {
  let drawn = 0
  return {
    uuid(): string {
      drawn += 1
      return derivedId('process uuid', seed, drawn)
    },
    random(): number {
      drawn += 1
      const digest = createHash('sha256').update(`${seed} random ${drawn}`).digest()
      // As many bits as a double holds between 0 and 1.
      return (digest.readUInt32BE(0) * 2 ** 21 + (digest.readUInt32BE(4) >>> 11)) / 2 ** 53
    },
  }
}
