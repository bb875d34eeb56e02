import { instanceHasEnded } from '../states.js'
import type { StoredInstance } from './stored-instance.js'

/** More instances than a worker handles at once would be kept for nothing; payloads of large ones are read again instead. */
const MOST_STATES = 5_000
const LARGEST_STATE = 64 * 1024

/** The states of instances that this program has last seen. They may be outdated: every write says on which it was decided. */
export function createKeptInstances() {
  const kept = new Map<string, StoredInstance>()
  return {
    /** Removes it: the write that is decided on it brings the next state. */
    take(id: string): StoredInstance | undefined {
      const stored = kept.get(id)
      kept.delete(id)
      return stored
    },
    set(stored: StoredInstance): void {
      const { id, status } = stored.state
      kept.delete(id)
      if (instanceHasEnded(status) || sizeOf(stored) > LARGEST_STATE) return
      kept.set(id, stored)
      if (kept.size <= MOST_STATES) return
      const [oldest] = kept.keys()
      if (oldest !== undefined) kept.delete(oldest)
    },
  }
}

function sizeOf({ state }: StoredInstance): number {
  let size = state.input.json.length
  for (const { input, output } of state.steps.values()) size += input.json.length + (output?.json.length ?? 0)
  return size
}
