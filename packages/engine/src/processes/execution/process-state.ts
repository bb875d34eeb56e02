import type { Codec } from '../../kernel/codec/codec.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { DefinedProcess } from '../define.js'
import type { RecordedResponse } from '../history.js'
import { fromUserCode, settled } from './from-user-code.js'
import { StateGuard } from './guard.js'
import { Mismatch } from './mismatch.js'

/** The data of a response that is in the state, and that no event has taken yet. */
interface ReceivedResponse {
  readonly number: number
  readonly data: unknown
}

interface ProcessStateOptions {
  readonly definition: DefinedProcess
  readonly codec: Codec
  readonly initial: unknown
  readonly seen: number
  readonly unmet: readonly number[]
  /** Names of responses that events of earlier generations have asked for. */
  readonly events: readonly string[]
  readonly responses: readonly RecordedResponse[]
}

/**
 * The state: a function of the record. It begins with the initial state and applies each response at the place where the
 * first execution applied it.
 */
export class ProcessState {
  readonly guard = new StateGuard()
  /** What user code sees. */
  readonly shown: unknown
  /** The last response that is in the state. */
  seen: number
  /** The last response that this execution has received. */
  received: number
  #raw: unknown
  #definition: DefinedProcess
  #codec: Codec
  #ahead: RecordedResponse[]
  #unconsumed = new Map<string, ReceivedResponse[]>()
  #events: Set<string>

  constructor({ definition, codec, initial, seen, unmet, events, responses }: ProcessStateOptions) {
    this.#definition = definition
    this.#codec = codec
    this.#raw = initial
    this.shown = this.guard.wrap(initial)
    this.seen = seen
    this.received = Math.max(seen, responses.at(-1)?.number ?? 0)
    this.#events = new Set(events)
    const kept = new Set(unmet)
    for (const response of responses) if (kept.has(response.number)) this.#admit(response)
    this.#ahead = responses.filter(({ number }) => number > seen)
  }

  receive(responses: readonly RecordedResponse[]): void {
    for (const response of responses) {
      if (response.number <= this.received) continue
      this.#ahead.push(response)
      this.received = response.number
    }
  }

  /** Brings the next response into the state; false when there is none. Throws `HF_REDUCER_THREW` when its reducer does. */
  applyNext(): boolean {
    const response = this.#ahead.shift()
    if (!response) return false
    this.seen = response.number
    const data = this.#admit(response)
    if (response.name.startsWith('@')) return true
    const definition = this.#definition.responses.get(response.name)
    if (!definition) throw new Mismatch(`the response \`${response.name}\``, 'no such response in the definition')
    this.guard.open = true
    try {
      fromUserCode(
        () => settled(definition.apply?.(this.shown, data), `the reducer of the response \`${response.name}\``),
        (problem, cause) => new HoldfastError('HF_REDUCER_THREW', { response: response.name, problem }, { cause }),
      )
    } finally {
      this.guard.open = false
    }
    return true
  }

  applyUpTo(number: number): void {
    while (this.seen < number) {
      if (!this.applyNext()) throw new Mismatch(`response ${number}`, `responses up to ${this.seen}`)
    }
  }

  /** The first response of that name that fits and no event has taken. */
  find(name: string, fits: (data: unknown) => boolean = () => true): ReceivedResponse | undefined {
    this.#events.add(name)
    return this.#unconsumed.get(name)?.find(({ data }) => fits(data))
  }

  /** Takes a response by its number; returns its data. */
  take(name: string, number: number): unknown {
    this.#events.add(name)
    const received = this.#unconsumed.get(name) ?? []
    const place = received.findIndex((one) => one.number === number)
    const [taken] = place < 0 ? [] : received.splice(place, 1)
    return taken?.data
  }

  /**
   * What the next generation has to know of the responses in this state. One that its reducer has applied is in the state,
   * and is kept for an event only where this process has ever asked for one of its name: a loop that lives on reducers
   * would otherwise carry every response that ever came.
   */
  leftOver(): { readonly unmet: readonly number[]; readonly events: readonly string[] } {
    const kept = [...this.#unconsumed].filter(
      ([name]) => this.#events.has(name) || this.#definition.responses.get(name)?.apply === undefined,
    )
    return { unmet: kept.flatMap(([, received]) => received.map(({ number }) => number)), events: [...this.#events] }
  }

  encode(): { readonly json: string; readonly notes: object | null } {
    return this.#codec.encode(this.#raw, { at: 'state' })
  }

  #admit({ number, name, data, notes }: RecordedResponse): unknown {
    // Our own (the end of a command or of a child) are no codec's work: what is the codec's in them is decoded by its taker.
    const decoded = name.startsWith('@') ? data : this.#codec.decode({ json: data, notes })
    const received = this.#unconsumed.get(name)
    if (received) received.push({ number, data: decoded })
    else this.#unconsumed.set(name, [{ number, data: decoded }])
    return decoded
  }
}
