import { setTimeout as sleep } from 'node:timers/promises'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { formatDuration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { createBackoff } from '../kernel/retry/backoff.js'
import { type CommandRecord, findCommands } from './queries/find-commands.js'

/** Waits until a command has ended, and answers its result; a command that did not complete is an error that says why. */
export async function awaitResult(
  db: Database,
  codec: Codec,
  { domain, commandId, limit }: { domain: string; commandId: string; limit: number },
): Promise<unknown> {
  const deadline = performance.now() + limit
  const backoff = createBackoff({ base: 10, cap: 250 })
  for (;;) {
    const [command] = await findCommands(db, codec, { domain, commandId, limit: 1 })
    if (!command) throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId, domain })
    if (command.status === 'COMPLETED') return command.result
    if (command.status === 'FAILED' || command.status === 'CANCELLED') throw notCompleted(command)
    const left = deadline - performance.now()
    if (left <= 0) {
      throw new HoldfastError('HF_RESULT_TIMEOUT', { what: 'command', id: commandId, waited: formatDuration(limit) })
    }
    await sleep(Math.min(backoff.next(), left))
  }
}

function notCompleted({ commandId, status, error }: CommandRecord): HoldfastError {
  const { code, message } = error ?? { code: '', message: '' }
  return new HoldfastError('HF_COMMAND_NOT_COMPLETED', { commandId, status, code, message })
}
