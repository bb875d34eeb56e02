/**
 * A simulated service whose effects are counted: a bank that pays and then resets the connection. It keeps every effect and
 * every undo, also if the workers that called it die, so that a test can check the one rule of durable work:
 * every effect is either kept by an execution that completed, or undone exactly once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessError, TransientError } from 'holdfast'
import { checkOptions } from 'holdfast/internal'
import { passPoint } from '../crash/living.js'
import type { Seed } from '../simulation/random.js'
import { type EffectEvent, type EffectStore, effectsInMemory } from './event.js'
import { type ChooseFault, type EffectFault, type FaultShares, faultsFrom } from './faults.js'

/** One call of the service. Spread what your step's code gets into it: `{ execution: ctx.id, name: 'charge', ...call }`. */
export interface EffectCall {
  /** The id of the process, the workflow instance or the command that it belongs to. */
  readonly execution: string
  /** The step; the same for the effect, for its undo and for the inquiry. */
  readonly name: string
  readonly idempotencyKey: string
  readonly signal?: AbortSignal
}

export interface PerformOptions extends EffectCall {
  /** The service does not recognise a repeated call: a second call is a second effect (`atMostOnce`, `nonIdempotent`). */
  readonly once?: boolean
}

export interface Receipt {
  readonly reference: string
}

/** A simulated service. */
export interface Effects {
  /** Makes a call: it has its effect and returns, unless a fault prevents that. */
  perform(call: PerformOptions): Promise<Receipt>
  /** Undoes the effect, if there was one. The same idempotency key again is the same undo. */
  undo(call: EffectCall): Promise<void>
  /** Whether the effect took place: what `inquire` of a step returns. */
  inquire(call: Pick<EffectCall, 'execution' | 'name'>): Promise<{ readonly done: Receipt } | 'notDone'>
  /** Everything that happened, in order. */
  events(): Promise<readonly EffectEvent[]>
}

export interface EffectsOptions {
  /** Decides which calls meet a fault. Default: 1. */
  readonly seed?: Seed
  /** How often faults occur, in per cent, or which call meets which fault. Default: no faults. */
  readonly faults?: FaultShares | ChooseFault
  /** Default: in the test's own process. */
  readonly store?: EffectStore
}

/** How long an effect comes after its caller has given up. */
const LATE_MS = 3
const SLOW_MS = 8

/**
 * Makes a simulated service.
 *
 * @example
 * const bank = createEffects({ seed: 7, faults: { lostAnswer: 20, unreachable: 10 } })
 * await ctx.step('charge', {
 *   run: (call) => bank.perform({ execution: ctx.id, name: 'charge', ...call }),
 *   compensate: (_, call) => bank.undo({ execution: ctx.id, name: 'charge', ...call }),
 * })
 */
export function createEffects(options: EffectsOptions = {}): Effects {
  checkOptions('createEffects', options, ['seed', 'faults', 'store'])
  const { seed = 1, faults = {}, store = effectsInMemory() } = options
  const choose = typeof faults === 'function' ? faults : faultsFrom(seed, faults)
  const times = new Map<string, number>()

  function nextFault({ execution, name }: EffectCall, undo: boolean): EffectFault | undefined {
    const key = JSON.stringify([execution, name, undo])
    const time = (times.get(key) ?? 0) + 1
    times.set(key, time)
    return choose({ execution, name, time, undo })
  }

  async function wasMade(call: Pick<EffectCall, 'execution' | 'name'>, idempotencyKey: string): Promise<boolean> {
    const events = await store.read(call)
    return events.some((event) => event.what === 'made' && event.idempotencyKey === idempotencyKey)
  }

  async function perform({ execution, name, idempotencyKey, signal, once = false }: PerformOptions): Promise<Receipt> {
    const note = (what: EffectEvent['what']) => store.append({ execution, name, what, idempotencyKey, once })
    const fault = nextFault({ execution, name, idempotencyKey }, false)
    await passPoint(`before effect ${name}`)
    await note('called')
    // A call under a key that it has executed already is confirmed, and never refused.
    const known = !once && (await wasMade({ execution, name }, idempotencyKey))
    if (fault === 'refused' && !known) {
      await note('refused')
      throw new BusinessError('the service says no', { code: 'REFUSED' })
    }
    if (fault === 'unreachable') throw new TransientError('connection refused', { code: 'UNREACHABLE' })
    if (fault === 'hangsBefore') throw await givenUp(signal)
    if (fault === 'late') await givenUp(signal).then(() => sleep(LATE_MS))
    await passPoint(`before effect ${name}`)
    await note('made')
    await passPoint(`after effect ${name}`)
    if (fault === 'hangs') throw await givenUp(signal)
    if (fault === 'slow') await sleep(SLOW_MS, undefined, signal ? { signal } : {})
    if (fault === 'lostAnswer' || fault === 'late') throw new Error('read ECONNRESET')
    await note('answered')
    return { reference: idempotencyKey }
  }

  return {
    perform,
    async undo({ execution, name, idempotencyKey }) {
      const fault = nextFault({ execution, name, idempotencyKey }, true)
      await passPoint(`before effect undo ${name}`)
      if (fault === 'unreachable') throw new TransientError('connection refused', { code: 'UNREACHABLE' })
      await store.append({ execution, name, what: 'undone', idempotencyKey, once: false })
      await passPoint(`after effect undo ${name}`)
      if (fault === 'lostAnswer') throw new Error('read ECONNRESET')
    },
    async inquire({ execution, name }) {
      await passPoint(`before effect inquire ${name}`)
      const made = (await store.read({ execution, name })).find(({ what }) => what === 'made')
      if (made) return { done: { reference: made.idempotencyKey } }
      await store.append({ execution, name, what: 'inquired', idempotencyKey: '', once: true })
      return 'notDone'
    },
    events: () => store.read(),
  }
}

/** Resolves with the reason of the caller's signal; a caller without a signal waits for ever. */
async function givenUp(signal: AbortSignal | undefined): Promise<unknown> {
  if (!signal) return new Error('read ECONNRESET')
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  return signal.reason
}
