import { HoldfastError } from '../errors.js'

/** A bounded number of places, given out in the order in which they were asked for. */
export interface Slots {
  /** Resolves with a function that frees the slot. Rejects when the signal fires, or when the slots are closed, before one is free. */
  take(signal?: AbortSignal): Promise<() => void>
  /** Rejects all callers that wait, and all that come later. */
  close(): void
}

export function createSlots(places: number, what: string): Slots {
  const waiting = new Set<{ readonly admit: () => void; readonly refuse: (reason: unknown) => void }>()
  let free = places
  let closed = false
  const stopped = () => new HoldfastError('HF_STOPPED', { what })

  function giveBack(): () => void {
    let given = false
    return () => {
      if (given) return
      given = true
      free += 1
      const [next] = waiting
      next?.admit()
    }
  }

  function take(signal?: AbortSignal): Promise<() => void> {
    if (closed) return Promise.reject(stopped())
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (free > 0) {
      free -= 1
      return Promise.resolve(giveBack())
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.delete(place)
        signal?.removeEventListener('abort', abort)
      }
      const abort = () => place.refuse(signal?.reason)
      const place = {
        admit() {
          leave()
          free -= 1
          resolve(giveBack())
        },
        refuse(reason: unknown) {
          leave()
          reject(reason)
        },
      }
      waiting.add(place)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  return {
    take,
    close() {
      closed = true
      for (const place of waiting) place.refuse(stopped())
    },
  }
}
