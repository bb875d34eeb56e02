import type { Logger } from '../logger.js'

/** Tells running work of this program what has come for it in the database: a cancellation, a response. */
export interface Watch<Member> {
  /** Watches it from now on; returns how to end that. */
  join(member: Member): () => void
  /** Polls now: something may have come for one of them. */
  look(): void
  close(): void
}

interface Options<Member> {
  /** The interval of polls, for a program that gets no notifications (no LISTEN behind its pooler). */
  readonly everyMs: number
  /** Reads with one statement what has come for the members, and tells those that are still watched. */
  readonly ask: (members: readonly Member[], isWatched: (member: Member) => boolean) => Promise<void>
  /** Called before each poll of the timer, and at the end. */
  readonly check?: (members: Iterable<Member>) => void
  /** What could not be read, for the log. */
  readonly what: string
  readonly logger: Logger
}

/** Polls on a notification and by a timer, one poll at a time. Most members end before the first poll. */
export function createWatch<Member>({ everyMs, ask, check, what, logger }: Options<Member>): Watch<Member> {
  const members = new Set<Member>()
  let timer: NodeJS.Timeout | undefined
  let looking = false
  let again = false

  async function look(): Promise<void> {
    if (members.size === 0) return
    again = looking
    if (looking) return
    looking = true
    try {
      await ask([...members], (member) => members.has(member))
    } catch (error) {
      logger.debug({ err: error }, `could not read ${what}; trying again`)
    } finally {
      looking = false
      if (again) void look()
    }
  }

  return {
    join(member) {
      members.add(member)
      timer ??= setInterval(() => {
        check?.(members)
        if (members.size > 0) return void look()
        clearInterval(timer)
        timer = undefined
      }, everyMs).unref()
      return () => members.delete(member)
    },
    look: () => void look(),
    close() {
      clearInterval(timer)
      check?.(members)
    },
  }
}
