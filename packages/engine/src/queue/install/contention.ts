import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf, isTransient } from '../../kernel/database/transient.js'
import { HoldfastError } from '../../kernel/errors.js'
import { createBackoff } from '../../kernel/retry/backoff.js'

/** Another session has created the same thing at the same moment: PostgreSQL's `if not exists` does not hold among transactions. */
const MADE_MEANWHILE = new Set(['23505', '42P06', '42P07', '42710', '42723'])

export interface ContentionOptions {
  /** Milliseconds after which an error is passed on. Another instance that is installing is waited for, however long. */
  readonly patience: number
  readonly onTrouble?: (error: unknown) => void
}

/**
 * Repeats something that several instances may try at once, until it returns a value. Undefined means: another instance is at
 * it, or something has just been done, so look again.
 */
export async function amongOthers<T>(
  attempt: () => Promise<T | undefined>,
  { patience, onTrouble }: ContentionOptions,
): Promise<T> {
  const backoff = createBackoff({ base: 10, cap: 1_000 })
  let lastProgress = performance.now()
  for (;;) {
    try {
      const result = await attempt()
      if (result !== undefined) return result
      lastProgress = performance.now()
    } catch (error) {
      if (!mayPass(error) || performance.now() - lastProgress > patience) throw error
      onTrouble?.(error)
    }
    await sleep(backoff.next())
  }
}

function mayPass(error: unknown): boolean {
  const original = error instanceof HoldfastError && error.cause !== undefined ? error.cause : error
  return isTransient(error) || MADE_MEANWHILE.has(codeOf(original))
}
