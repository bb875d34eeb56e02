import type { Logger } from '../logger.js'

/** What runs in this program, told of what comes for it in the database while it runs: a cancellation, a response. */
export interface Watch<Member> {
  /** Watches it from now on; returns how to end that. */
  join(member: Member): () => void
  /** Something may have come for one of them. */
  look(): void
  close(): void
}

interface Options<Member> {
  /** A program that gets no notifications (no LISTEN behind its pooler) looks so often by itself. */
  readonly everyMs: number
  /** Asks about all members with one statement, and tells those that something has come for and that are still watched. */
  readonly ask: (members: readonly Member[], isWatched: (member: Member) => boolean) => Promise<void>
  /** Before each look of the timer, and at the end. */
  readonly check?: (members: Iterable<Member>) => void
  /** What could not be asked, for the log. */
  readonly what: string
  readonly logger: Logger
}

/** Looks upon a notification and by a timer, one look at a time. Most members are over before the first look. */
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
      logger.debug({ err: error }, `could not look ${what}; looking again`)
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
