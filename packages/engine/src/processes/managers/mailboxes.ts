import type { ManagedProcess } from '../queries/read-managed.js'
import type { Incoming } from './decide.js'

/** A reply, with the process as it was read beside it; or, with neither, a look at what an operator asked for. */
export interface Mail {
  readonly managed?: ManagedProcess
  readonly incoming?: Incoming
}

interface Waiting {
  readonly mail: Mail
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Everything that comes for one process at the same time is decided together, and one decision of it is under way at
 * a time: a hundred replies to one process are a few writes, not a hundred that lose against each other.
 */
export function createMailboxes(handle: (id: string, mail: readonly Mail[]) => Promise<void>) {
  const boxes = new Map<string, Waiting[]>()

  async function empty(id: string): Promise<void> {
    // What was claimed together is put in within the same turn.
    await Promise.resolve()
    for (;;) {
      const waiting = boxes.get(id) ?? []
      if (waiting.length === 0) {
        boxes.delete(id)
        return
      }
      boxes.set(id, [])
      try {
        await handle(
          id,
          waiting.map(({ mail }) => mail),
        )
        for (const { resolve } of waiting) resolve()
      } catch (error) {
        for (const { reject } of waiting) reject(error)
      }
    }
  }

  return {
    put(id: string, mail: Mail): Promise<void> {
      return new Promise((resolve, reject) => {
        const waiting = { mail, resolve, reject }
        const box = boxes.get(id)
        if (box) box.push(waiting)
        else {
          boxes.set(id, [waiting])
          void empty(id)
        }
      })
    },
  }
}
