import type { Database } from '../kernel/database/database.js'
import { commandQueueFor, ensureCommandQueue, forgetQueue } from '../queue/index.js'

/** The queue of a domain, made and noted on first use by a process. */
export interface Domains {
  queueOf(domain: string): string
  /** Resolves when the queue is there. A sender does not wait for an index that is still to be built. */
  ready(domain: string, options?: { readonly buildIndex?: boolean }): Promise<string>
  /** After the queue has turned out to be gone: the next `ready` makes it again. */
  forget(domain: string): void
}

export function createDomains(db: Database): Domains {
  const known = new Map<string, Promise<unknown>>()
  /** Noted, with or without their index: enough for a sender, which must not ask again; it may hold the last connection. */
  const usable = new Map<string, string>()
  /** With their index. */
  const complete = new Set<string>()
  const queueOf = (domain: string) => commandQueueFor(db.schema, domain)

  return {
    queueOf,
    async ready(domain, { buildIndex = true } = {}) {
      const before = usable.get(domain)
      if (before !== undefined && (!buildIndex || complete.has(domain))) return before
      const queue = queueOf(domain)
      await ensureCommandQueue(db, queue, { buildIndex })
      const noted = known.get(domain) ?? db.run(noteStatement, [domain, queue])
      known.set(domain, noted)
      // A failure is not remembered: the next call tries again.
      await noted.catch((error) => {
        known.delete(domain)
        throw error
      })
      usable.set(domain, queue)
      if (buildIndex) complete.add(domain)
      return queue
    },
    forget(domain) {
      complete.delete(domain)
      usable.delete(domain)
      known.delete(domain)
      forgetQueue(db, queueOf(domain))
    },
  }
}

const noteStatement = {
  name: 'commands.note-queue',
  text: 'insert into holdfast.command_queue (domain, queue) values ($1, $2) on conflict do nothing',
}
