import type { LostClaim } from './source.js'

/**
 * Runs an item whose workers died with nothing else beside it in this Node process. If this worker dies too, the item is
 * the cause. All loops of a Node process share one gate, across models and installations, because a crash ends all of them.
 * While an item runs alone, no other work begins. Work that runs already gets a short time to end; if it does not end, the
 * item runs beside it, and a crash is then not counted against the item.
 *
 * Healthy work does not starve: a turn has a time limit, and the gate then stays open for at least as long as it was
 * closed. The time limit doubles with each loss, so an item that crashes its worker after T is alone at that moment after
 * about log2(T in seconds) losses. Until then other work of this Node process waits for at most T at a time. Where that is
 * long, it is left to other workers.
 */
export interface Gate {
  /** Whether other work may begin. */
  readonly isOpen: boolean
  /**
   * Whether the gate stays closed for so long that other work is better left to other workers: it is not claimed, and what
   * was claimed and has not begun is released.
   */
  readonly isClosedForLong: boolean
  /** An item begins. Call the returned function when it has ended. */
  enter(): () => void
  /** Waits until other work may begin, then enters. */
  entered(): Promise<() => void>
  /** Calls the listener each time the gate opens. Returns a function that removes it. */
  onOpen(listener: () => void): () => void
  /** Queues for a turn; undefined when it was cancelled. */
  queue(lost: LostClaim): { readonly turn: Promise<Turn | undefined>; readonly cancel: () => void }
}

export interface Turn {
  /** Nothing else runs in this process, and nothing begins until `open`. */
  readonly alone: boolean
  /** How long it may be alone. */
  readonly milliseconds: number
  /** Lets other work begin. The item itself leaves by `end`. */
  open(): void
  /** The item has ended, or did not begin. */
  end(): void
}

/** Items that run alone for the first time share this time, however many they are: all of them get a turn within a lease. */
const FIRST_ROUND = 10_000
/** After this many losses without progress an item runs alone: see `isSuspect` in `loop.ts`. */
export const FIRST_ALONE = 2
const SHORTEST = 50
/** An item that is lost again runs alone for twice as long each time: one that kills its worker late is found too. */
const FIRST_TURN = 1_000
/** Few items are lost so often. With a shorter limit, an item that crashes its worker later than that is never found. */
const LONGEST_TURN = 24 * 3_600_000
const LONG_TURN = 60_000
/** How long an item waits for work that runs already; longer where its turn is long. */
const FIRST_PATIENCE = 2_000
const PATIENCE_OF_TURN = 1 / 4

export function turnMs({ alone, shared }: Pick<LostClaim, 'alone' | 'shared'>, waiting: number): number {
  const times = alone + shared
  if (times <= FIRST_ALONE) return Math.max(SHORTEST, Math.min(FIRST_ROUND / Math.max(1, waiting), FIRST_TURN))
  return Math.min(FIRST_TURN * 2 ** (times - FIRST_ALONE), LONGEST_TURN)
}

function patienceMs(turn: number): number {
  return Math.min(turn, Math.max(FIRST_PATIENCE, turn * PATIENCE_OF_TURN))
}

interface Queued {
  readonly lost: LostClaim
  readonly grant: (turn: Turn | undefined) => void
}

export function createGate(): Gate {
  const listeners = new Set<() => void>()
  let queued: Queued[] = []
  let running = 0
  /** When the gate was closed, while it is. */
  let closedAt: number | undefined
  /** Of the item that has the turn, or is about to. */
  let turn = 0
  let notBefore = 0
  let timer: NodeJS.Timeout | undefined
  let idle: (() => void) | undefined

  function enter(): () => void {
    running += 1
    let left = false
    return () => {
      if (left) return
      left = true
      running -= 1
      if (running === 0) idle?.()
    }
  }

  function open(): void {
    if (closedAt === undefined) return
    const now = performance.now()
    notBefore = now + (now - closedAt)
    closedAt = undefined
    for (const listener of listeners) listener()
    next()
  }

  /** Gives the next turn, if it is time for one. */
  function next(): void {
    if (closedAt !== undefined || queued.length === 0) return
    const wait = notBefore - performance.now()
    clearTimeout(timer)
    if (wait > 0) {
      timer = setTimeout(next, wait)
      return
    }
    const at = firstOf(queued)
    const [first] = queued.splice(at, 1)
    if (!first) return
    closedAt = performance.now()
    const milliseconds = turnMs(first.lost, queued.length + 1)
    turn = milliseconds
    if (running === 0) give(first, milliseconds)
    else whenIdle(patienceMs(milliseconds), () => give(first, milliseconds))
  }

  function whenIdle(patience: number, then: () => void): void {
    const go = () => {
      clearTimeout(limit)
      idle = undefined
      then()
    }
    const limit = setTimeout(go, patience)
    idle = go
  }

  function give({ grant }: Queued, milliseconds: number): void {
    const alone = running === 0
    const leave = enter()
    let opened = false
    const openOnce = () => {
      if (opened) return
      opened = true
      open()
    }
    grant({
      alone,
      milliseconds,
      open: openOnce,
      end() {
        leave()
        openOnce()
      },
    })
  }

  return {
    get isOpen() {
      return closedAt === undefined
    },
    get isClosedForLong() {
      return closedAt !== undefined && turn > LONG_TURN
    },
    enter,
    async entered() {
      while (closedAt !== undefined) {
        await new Promise<void>((resolve) => {
          const end = this.onOpen(() => {
            end()
            resolve()
          })
        })
      }
      return enter()
    },
    onOpen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    queue(lost) {
      let entry: Queued | undefined
      const granted = new Promise<Turn | undefined>((grant) => {
        entry = { lost, grant }
        queued.push(entry)
      })
      // All items of one claim are queued before the first of them gets its turn.
      setImmediate(next)
      return {
        turn: granted,
        cancel() {
          if (!entry || !queued.includes(entry)) return
          queued = queued.filter((one) => one !== entry)
          entry.grant(undefined)
        },
      }
    },
  }
}

/** First items that were lost while alone, then items that had begun when their worker died, then the others in order. */
function firstOf(queued: readonly Queued[]): number {
  const urgency = ({ lost }: Queued) => (lost.alone > 0 ? 2 : lost.firstToTry ? 1 : 0)
  let first = 0
  for (const [place, one] of queued.entries()) {
    const best = queued[first]
    if (best && urgency(one) > urgency(best)) first = place
  }
  return first
}

/** The gate of this Node process. */
export const processGate: Gate = createGate()
