import type { Duration } from 'holdfast'
import { checkOptions, parseDuration } from 'holdfast/internal'
import { inLanes } from '../harness/lanes.js'
import type { Behaviour, Outcome } from './behaviour.js'

/** The response of the external system to a wait. For `TIMEOUT` none is sent. */
export type SimulatedAnswer =
  | { readonly kind: 'SUCCESS' }
  | {
      readonly kind: 'ERROR'
      readonly code: 'PERM_ERROR' | 'TRANS_ERROR' | 'BIZ_ERROR'
      readonly message: string
    }
  /** It is for a person to answer: make an entry in whatever list people look at. */
  | { readonly kind: 'PENDING' }

export interface SimulatorOptions<Wait> {
  /** How often it polls. Default: 1 s. */
  readonly every?: Duration
  /** How many responses are sent at once. Default: 1. */
  readonly atOnce?: number
  /** What waits for a response now. A wait that has got its response is ignored. */
  readonly find: () => Promise<readonly Wait[]>
  /** Tells one wait from all others: the process and the wait's name. */
  readonly key: (wait: Wait) => string
  /** What the outcome depends on, if the key differs in every run. Default: the key. */
  readonly rollKey?: (wait: Wait) => string
  /** How the external system behaves towards a wait. Default: it always succeeds. */
  readonly behaviour?: Behaviour | ((wait: Wait) => Behaviour)
  /** Gives the answer. What it throws goes to `onError`, and it is tried again in the next cycle. */
  readonly answer: (wait: Wait, answer: SimulatedAnswer) => unknown
  readonly onError?: (error: unknown, wait: Wait | undefined) => void
}

/** When a wait was first seen, and whether it has had its answer. */
interface Seen {
  readonly since: number
  settled: boolean
}

/** The other side: a network, a bank, a person. */
export interface Simulator {
  start(): void
  /** Looks no more; resolves when the cycle under way has ended. */
  stop(): Promise<void>
  /** One cycle now; returns how many waits got a response. For tests that drive it themselves. */
  cycle(): Promise<number>
  /** How many waits met which fate so far. */
  readonly outcomes: Readonly<Record<Outcome, number>>
}

/**
 * Responds to waits, as a network would: with success, with an error, after a while, through a person, or never.
 *
 * @example
 * const network = createSimulator({
 *   find: () => hf.processes.list({ domain: 'payments', status: 'WAITING_FOR_ASYNC' }),
 *   key: ({ id, waitingFor }) => `${id}/${waitingFor}`,
 *   behaviour: behaviour({ business: 5, timeout: 2 }, seed),
 *   answer: ({ id }, answer) => hf.process(Payment, id).respond('confirmed', { ok: answer.kind === 'SUCCESS' }),
 * })
 * network.start()
 */
export function createSimulator<Wait>(options: SimulatorOptions<Wait>): Simulator {
  checkOptions('createSimulator', options, [
    'every',
    'atOnce',
    'find',
    'key',
    'rollKey',
    'behaviour',
    'answer',
    'onError',
  ])
  const { find, key, rollKey = key, answer, behaviour, atOnce = 1, onError = rethrowLater } = options
  const everyMs = parseDuration(options.every ?? '1s', 'createSimulator: every')
  const outcomes: Record<Outcome, number> = {
    PERMANENT: 0,
    TRANSIENT: 0,
    BUSINESS: 0,
    TIMEOUT: 0,
    PENDING: 0,
    SUCCESS: 0,
  }
  /** By key, those that still wait. */
  let known = new Map<string, Seen>()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()

  async function lookOnce(): Promise<number> {
    const waits = await find()
    const before = known
    known = new Map()
    for (const wait of waits) {
      const name = key(wait)
      known.set(name, before.get(name) ?? { since: performance.now(), settled: false })
    }
    let answered = 0
    await inLanes(waits, atOnce, async (wait) => {
      const seen = known.get(key(wait))
      if (seen && !seen.settled && (await meet(wait, seen))) answered += 1
    })
    return answered
  }

  async function meet(wait: Wait, seen: Seen): Promise<boolean> {
    const rolled = (typeof behaviour === 'function' ? behaviour(wait) : behaviour)?.roll(rollKey(wait))
    const { outcome, durationMs } = rolled ?? { outcome: 'SUCCESS', durationMs: 0 }
    if (performance.now() - seen.since < durationMs) return false
    const said = answerOf(outcome)
    try {
      if (said) await answer(wait, said)
    } catch (error) {
      onError(error, wait)
      return false
    }
    seen.settled = true
    outcomes[outcome] += 1
    return said !== undefined
  }

  /** One after the other, for all callers. */
  function cycle(): Promise<number> {
    const next = running.then(lookOnce)
    running = next.catch(() => undefined)
    return next
  }

  function again(): void {
    timer = setTimeout(() => {
      const looked = cycle().catch((error: unknown) => onError(error, undefined))
      void looked.then(() => timer && again())
    }, everyMs)
  }

  return {
    cycle,
    outcomes,
    start() {
      if (!timer) again()
    },
    async stop() {
      clearTimeout(timer)
      timer = undefined
      await running
    },
  }
}

function answerOf(outcome: Outcome): SimulatedAnswer | undefined {
  switch (outcome) {
    case 'SUCCESS':
    case 'PENDING':
      return { kind: outcome }
    case 'PERMANENT':
      return { kind: 'ERROR', code: 'PERM_ERROR', message: 'simulated permanent failure' }
    case 'TRANSIENT':
      return { kind: 'ERROR', code: 'TRANS_ERROR', message: 'simulated transient failure' }
    case 'BUSINESS':
      return { kind: 'ERROR', code: 'BIZ_ERROR', message: 'simulated business failure' }
    case 'TIMEOUT':
      return undefined
  }
}

/** Nothing is swallowed: who does not say what to do with an error gets it as an uncaught one. */
function rethrowLater(error: unknown): void {
  queueMicrotask(() => {
    throw error
  })
}
