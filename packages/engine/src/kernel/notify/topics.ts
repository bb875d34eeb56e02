import type { Listener } from './listener.js'

/** The topics that wake one loop. More may be added while it runs: what is registered later has topics of its own. */
export interface Topics {
  /** Listens to it from now on, and wakes the loop once: something of the topic may be due already. */
  add(topic: string): void
  /** As loops take it. */
  onWake(wake: () => void): () => void
  /** Wakes the loop as a notification would. */
  wake(): void
}

/** Without a listener no loop is woken up, and loops only poll. */
export function createTopics(listener: Listener | undefined): Topics {
  const subscribed = new Map<string, () => void>()
  const wakes = new Set<() => void>()
  const wake = () => {
    for (const one of wakes) one()
  }
  return {
    add(topic) {
      if (subscribed.has(topic)) return
      subscribed.set(topic, listener?.subscribe(topic, wake) ?? (() => undefined))
      wake()
    },
    onWake(one) {
      wakes.add(one)
      return () => {
        wakes.delete(one)
        for (const end of subscribed.values()) end()
      }
    },
    wake,
  }
}
