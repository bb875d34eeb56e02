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
  /** With their index; a sender that asks for less must not ask the database again, for it may hold the last connection. */
  const complete = new Set<string>()
  const queueOf = (domain: string) => commandQueueFor(db.schema, domain)

  return {
    queueOf,
    async ready(domain, { buildIndex = true } = {}) {
      const queue = queueOf(domain)
      if (complete.has(domain)) return queue
      await ensureCommandQueue(db, queue, { buildIndex })
      const noted = known.get(domain) ?? db.run(noteStatement, [domain, queue])
      known.set(domain, noted)
      // A failure is not remembered: the next call tries again.
      await noted.catch((error) => {
        known.delete(domain)
        throw error
      })
      if (buildIndex) complete.add(domain)
      return queue
    },
    forget(domain) {
      complete.delete(domain)
      known.delete(domain)
      forgetQueue(db, queueOf(domain))
    },
  }
}

const noteStatement = {
  name: 'commands.note-queue',
  text: 'select holdfast.note_command_queue($1, $2)',
}
