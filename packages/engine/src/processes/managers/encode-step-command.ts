import type { Envelope, Outgoing } from '../../commands/index.js'
import { replyQueue } from '../replies/queue.js'
import type { CommandSent } from './draft.js'

/** A step's command on its way: its replies come to the process's domain, and name the process. */
export async function encodeStepCommand(
  outgoing: Outgoing,
  process: { readonly id: string; readonly domain: string; readonly name: string },
  { commandId, step, command }: CommandSent,
): Promise<Envelope> {
  const replyTo = replyQueue(process.domain)
  await outgoing.replyQueue(replyTo)
  const options = { ...command.options, id: commandId, correlationId: process.id, replyTo }
  return outgoing.encode(command.command, command.data, options, `${process.name}: step ${step}`)
}
