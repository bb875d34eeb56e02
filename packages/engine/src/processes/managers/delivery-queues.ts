import type { ManagedProcess } from '../queries/read-managed.js'
import type { Incoming } from './decide.js'

/** A reply, and the process as it was read with it; without both, a request of an operator to check the process. */
export interface Delivery {
  readonly managed?: ManagedProcess
  readonly incoming?: Incoming
}

interface Waiting {
  readonly delivery: Delivery
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * All deliveries for one process at the same time are decided together, and only one decision of a process is in progress at
 * a time: a hundred replies to one process are a few writes, not a hundred that conflict.
 */
export function createDeliveryQueues(handle: (id: string, delivery: readonly Delivery[]) => Promise<void>) {
  const queues = new Map<string, Waiting[]>()

  async function empty(id: string): Promise<void> {
    // Replies that were claimed together are added in the same turn of the event loop.
    await Promise.resolve()
    for (;;) {
      const waiting = queues.get(id) ?? []
      if (waiting.length === 0) {
        queues.delete(id)
        return
      }
      queues.set(id, [])
      try {
        await handle(
          id,
          waiting.map(({ delivery }) => delivery),
        )
        for (const { resolve } of waiting) resolve()
      } catch (error) {
        for (const { reject } of waiting) reject(error)
      }
    }
  }

  return {
    put(id: string, delivery: Delivery): Promise<void> {
      return new Promise((resolve, reject) => {
        const waiting = { delivery, resolve, reject }
        const queue = queues.get(id)
        if (queue) queue.push(waiting)
        else {
          queues.set(id, [waiting])
          void empty(id)
        }
      })
    },
  }
}
