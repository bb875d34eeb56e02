import { createHash } from 'node:crypto'
import type { Logger } from '../logger.js'
import { codeOf } from './transient.js'

/**
 * Prepared statements behind a pooler. In transaction mode a pooler hands out another server connection for
 * every transaction, and an older one does not know which statements were prepared where. Nothing tells us
 * beforehand: the first statement that fails this way switches preparing off.
 */
export interface PreparedStatements {
  /** The name to prepare the text under; undefined: run it unnamed. */
  nameOf(text: string): string | undefined
  /** Learns from the error of a statement that ran under this name. True: it can succeed when it is repeated. */
  learn(text: string, name: string | undefined, error: unknown): boolean
}

export function preparedStatements(mode: 'auto' | 'off', logger: Logger): PreparedStatements {
  const names = new Map<string, string>()
  let off = mode === 'off'

  function nameOf(text: string): string | undefined {
    if (off) return undefined
    let name = names.get(text)
    if (name === undefined) {
      name = nameFor(text, 0)
      names.set(text, name)
    }
    return name
  }

  function learn(text: string, name: string | undefined, error: unknown): boolean {
    if (name === undefined) return false
    if (cannotHold(error)) {
      if (!off) logger.warn({ err: error }, 'the pooler cannot hold prepared statements: they are switched off')
      off = true
      return true
    }
    if (!planIsOutdated(error)) return false
    // Every connection has the old plan under the old name; a new name makes each of them plan again.
    if (names.get(text) === name) names.set(text, nameFor(text, generationOf(name) + 1))
    return true
  }

  return { nameOf, learn }
}

/**
 * By the text, not by the statement's own name: `pg` refuses one name for two texts, and two schemas or two releases
 * that share a pooler's connection must not meet under one name.
 */
function nameFor(text: string, generation: number): string {
  return `hf_${createHash('sha256').update(text).digest('hex').slice(0, 20)}_${generation}`
}

function generationOf(name: string): number {
  return Number(name.slice(name.lastIndexOf('_') + 1))
}

/** All of these are found before anything is executed. */
function cannotHold(error: unknown): boolean {
  const code = codeOf(error)
  if (code === '26000' || code === '42P05') return true
  return code === '08P01' && error instanceof Error && error.message.startsWith('bind message supplies')
}

function planIsOutdated(error: unknown): boolean {
  return codeOf(error) === '0A000' && error instanceof Error && error.message.startsWith('cached plan must not change')
}
