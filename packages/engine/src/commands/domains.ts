import type { Database } from '../kernel/model/index.js'
import { commandQueueFor, ensureCommandQueue, forgetQueue } from '../queue/index.js'

/** The queue of a domain, created and recorded on its first use by a program. */
export interface Domains {
  queueOf(domain: string): string
  /** Resolves when the queue exists. A sender does not wait for an index that is still being built. */
  ready(domain: string, options?: { readonly buildIndex?: boolean }): Promise<string>
  /** After the queue was found missing: the next `ready` creates it again. */
  forget(domain: string): void
}

export function createDomains(db: Database): Domains {
  const known = new Map<string, Promise<unknown>>()
  /** Recorded, with or without their index: enough for a sender, which must not query again, because it may hold the last connection. */
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
