import type { CommandClient, Outgoing } from '../commands/index.js'
import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Database } from '../kernel/model/index.js'
import { encodeStart } from './encode-start.js'
import type { Remotes } from './execution/remotes.js'
import { startProcesses } from './queries/start-processes.js'
import { processOf } from './refused.js'
import { replyQueue } from './replies/queue.js'

/** Commands and children of processes, under ids derived from their parent, so that a repeated start is the same one. */
export function createRemotes(
  db: Database,
  {
    commands,
    outgoing,
    codec,
  }: { readonly commands: CommandClient; readonly outgoing: Outgoing; readonly codec: Codec },
): Remotes {
  return {
    async sendCommand({ id, domain }, command, data, options) {
      const replyTo = replyQueue(domain)
      const send = async () => {
        await outgoing.replyQueue(replyTo)
        await commands.send(command, data as never, { ...options, correlationId: id, replyTo, ifExists: 'ignore' })
      }
      try {
        await send()
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== 'HF_QUEUE_NOT_FOUND') throw error
        // It was dropped since this program created it: created again, once.
        outgoing.forget({ replyQueue: replyTo })
        await send()
      }
    },
    async cancelCommand({ id }, { domain }, commandId) {
      await db.run(cancelCommandStatement, [domain, commandId, `process ${id}`])
    },
    async startChild(parent, process, state, details) {
      const { id, key } = details
      const where = `child ${process.name}`
      const encoded = await encodeStart(process, state, details, { codec, where, parent })
      const [answer] = await startProcesses(db, [encoded])
      // Its end would be reported to another process: this one must not wait for it.
      if (answer?.id !== id) throw new HoldfastError('HF_DUPLICATE_KEY', processOf(process.name, key ?? id))
    },
    async cancelChild(parentId, id, compensate) {
      await db.run(cancelChildStatement, [id, compensate ? 'COMPENSATE' : 'PLAIN', `process ${parentId}`])
    },
    async cancelChildren(parentId, compensate) {
      await db.run(cancelStatement, [parentId, compensate ? 'COMPENSATE' : 'PLAIN', `process ${parentId}`])
    },
  }
}

const cancelCommandStatement = {
  name: 'processes.cancel-command',
  text: "select holdfast.call_off_command($1, $2, $3, 'its process is being undone or has ended')",
}

const cancelChildStatement = {
  name: 'processes.cancel-child',
  text: `
    select holdfast.cancel_process(id, $2, $3, 'its parent was cancelled or compensated')
    from holdfast.process
    where id = $1 and cancel is null`,
}

const cancelStatement = {
  name: 'processes.cancel-children',
  text: `
    select holdfast.cancel_process(child.id, $2, $3, 'its parent was cancelled or compensated')
    from (
      select detail.id
      from holdfast.process_detail as detail
      where detail.parent_id = $1 and detail.ended_at is null
      order by detail.id
    ) as child`,
}
