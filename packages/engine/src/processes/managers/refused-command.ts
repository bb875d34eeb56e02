import type { Envelope, Outgoing } from '../../commands/index.js'
import { HoldfastError } from '../../kernel/errors.js'
import { read } from '../../kernel/failure/thrown.js'
import { codeOf } from '../../kernel/model/index.js'
import { replyQueue } from '../replies/queue.js'

/** What `holdfast.send_for_processes` raises; its detail is the outcome of the send. */
const NOT_SENT = 'HF001'

/** Why a command could not be sent with its process, if that is what the error says. */
export function refusalIn(error: unknown): string | undefined {
  if (codeOf(error) !== NOT_SENT) return undefined
  const detail = read(error, 'detail')
  return typeof detail === 'string' ? detail : 'refused'
}

/** The next attempt creates dropped queues again; true where that may help. */
export function forgetGone(outgoing: Outgoing, refusal: string, { domain }: Envelope, processDomain: string): boolean {
  if (refusal === 'queue gone') outgoing.forget({ domain })
  else if (refusal === 'reply queue gone') outgoing.forget({ replyQueue: replyQueue(processDomain) })
  else return false
  return true
}

export function toRefusedError(refusal: string, { commandId, domain, type, queue }: Envelope): HoldfastError {
  if (refusal === 'queue gone' || refusal === 'reply queue gone')
    return new HoldfastError('HF_QUEUE_NOT_FOUND', { queue })
  const work = { model: 'commands', domain, type, id: commandId } as const
  if (refusal === 'batch closed') return new HoldfastError('HF_BATCH_CLOSED', { ...work, batchId: '' })
  return new HoldfastError('HF_DUPLICATE_COMMAND', work)
}
