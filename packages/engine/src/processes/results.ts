import { setTimeout as sleep } from 'node:timers/promises'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { formatDuration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { createBackoff } from '../kernel/retry/backoff.js'
import { findStanding } from './queries/find-standing.js'
import { hasEnded } from './states.js'

/** Waits until a process has ended, and answers its result; one that did not complete is an error that says why (P-10). */
export async function awaitResult(
  db: Database,
  codec: Codec,
  { name, reference, limit }: { readonly name: string; readonly reference: string; readonly limit: number },
): Promise<unknown> {
  const deadline = performance.now() + limit
  const backoff = createBackoff({ base: 10, cap: 250 })
  for (;;) {
    const { id, status, result, resultNotes, code, message } = await findStanding(db, name, reference)
    if (status === 'COMPLETED') return result === null ? null : codec.decode({ json: result, notes: resultNotes })
    if (hasEnded(status)) throw new HoldfastError('HF_PROCESS_NOT_COMPLETED', { id, status, code, message })
    const left = deadline - performance.now()
    if (left <= 0) {
      throw new HoldfastError('HF_RESULT_TIMEOUT', { what: 'process', id, waited: formatDuration(limit) })
    }
    await sleep(Math.min(backoff.next(), left))
  }
}
