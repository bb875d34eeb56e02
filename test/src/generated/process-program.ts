import { createRandom } from '@holdfast/testing'
import type { Duration } from 'holdfast'

/** A program over the calls of a process, as data: what it does is read from the process's own state. */
export type Node =
  | CallNode
  | { readonly do: 'command'; readonly name: string; readonly timeout: Duration; readonly once: boolean }
  | { readonly do: 'child'; readonly name: string; readonly body: Node }
  | { readonly do: 'wait'; readonly name: string; readonly onTimeout: 'compensate' | 'return' }
  | { readonly do: 'sleep'; readonly name: string }
  | { readonly do: 'all' | 'sequence'; readonly nodes: readonly Node[] }

export interface CallNode {
  readonly do: 'call'
  readonly name: string
  readonly once: boolean
  /** Only of one that must not be repeated. */
  readonly inquires: boolean
  readonly maxAttempts: number
  /** The program catches its failure and goes on. */
  readonly caught: boolean
}

export interface ProcessProgram {
  readonly body: Node
  readonly end: 'returns' | 'throws'
  readonly deadline?: Duration
}

/** The same program for the same seed. */
export function processProgram(seed: number): ProcessProgram {
  const random = createRandom(`process program ${seed}`)
  const builder = new Builder(random)
  const body = { do: 'sequence', nodes: builder.several(1, 4, 2) } as const
  return {
    body,
    end: random() < 0.25 ? 'throws' : 'returns',
    ...(random() < 0.1 ? { deadline: random() < 0.5 ? '2s' : '90s' } : {}),
  }
}

class Builder {
  readonly #random: () => number
  #names = 0

  constructor(random: () => number) {
    this.#random = random
  }

  several(least: number, most: number, depth: number): Node[] {
    const count = least + Math.floor(this.#random() * (most - least + 1))
    return Array.from({ length: count }, () => this.#node(depth))
  }

  #node(depth: number): Node {
    const dice = this.#random()
    if (depth > 0 && dice < 0.25) return { do: 'all', nodes: this.several(2, 3, depth - 1) }
    if (depth > 0 && dice < 0.3) return { do: 'sequence', nodes: this.several(2, 3, depth - 1) }
    if (depth > 0 && dice < 0.36) {
      const nodes = this.several(1, 2, 0)
      return { do: 'child', name: this.#name('child'), body: { do: 'sequence', nodes } }
    }
    if (dice < 0.48) {
      const timeout = this.#random() < 0.3 ? '1s' : '5m'
      return { do: 'command', name: this.#name('command'), timeout, once: this.#random() < 0.3 }
    }
    if (dice < 0.54) {
      return { do: 'wait', name: this.#name('wait'), onTimeout: this.#random() < 0.3 ? 'compensate' : 'return' }
    }
    if (dice < 0.58) return { do: 'sleep', name: this.#name('sleep') }
    return this.#call()
  }

  #call(): CallNode {
    const once = this.#random() < 0.4
    return {
      do: 'call',
      name: this.#name('call'),
      once,
      inquires: once && this.#random() < 0.7,
      maxAttempts: 1 + Math.floor(this.#random() * 3),
      caught: this.#random() < 0.15,
    }
  }

  #name(kind: string): string {
    this.#names += 1
    return `${kind}-${this.#names}`
  }
}
