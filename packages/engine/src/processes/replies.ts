import type { Outgoing } from '../commands/index.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Runtime } from '../kernel/model/index.js'
import type { ProcessEngine } from './engine.js'
import { checkEntry } from './entry-check.js'
import { isLostLease } from './execution/lost.js'
import { createManagerDriver } from './managers/driver.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import type { ClaimedReply } from './queries/claim-replies.js'
import { isFinal, toStoredReply } from './replies/message.js'
import { replyQueue } from './replies/queue.js'
import { createReplyRecorder } from './replies/recorder.js'
import { replySource } from './replies/source.js'
import { processSource } from './source.js'

interface Parts extends Runtime {
  readonly engine: ProcessEngine
  readonly outgoing: Outgoing
}

/** How long a reply is left for workers that have the definition of its process. */
const LEFT_FOR_OTHERS = 1_000

/**
 * What a worker does for the replies to a domain's processes. Undefined where the domain's name cannot be that of a
 * queue: then none of its processes can send a command.
 */
export async function createReplyWork(domain: string, parts: Parts) {
  const { db, engine, outgoing, logger, metrics, reports } = parts
  const { managers } = engine
  const queue = await queueFor(domain, parts)
  if (queue === undefined) return undefined
  const { codec } = engine
  const recorder = createReplyRecorder(db, {
    queue,
    respond: engine.respond,
    find: (name) => engine.registry.find(name),
    logger,
    metrics,
  })
  const driver = createManagerDriver(db, { queue, registry: managers, outgoing, codec, logger, metrics, reports })

  async function handOver(item: ClaimedReply): Promise<void> {
    const { managed } = item
    if (!managed) return recorder.record(item)
    const known = managers.find(managed.type)
    if (known && known.definition.version >= managed.version) return driver.deliver(managed, toIncoming(item))
    logger.debug({ process: managed.id, type: managed.type }, 'left for a worker that has its definition')
    await db.run(returnStatement, [queue, item.id, item.epoch, LEFT_FOR_OTHERS])
  }

  /** One that was started through SQL has not begun: its state is checked, and its first step is decided here. */
  async function look(item: ClaimedProcess): Promise<void> {
    const manager = managers.find(item.type)
    if (!manager) return
    try {
      const entry = await checkEntry(item, { db, codec, writes: engine.writes, definition: manager.definition })
      if (!('suspension' in entry)) await driver.check(item.id)
    } catch (error) {
      if (!isLostLease(error)) throw error
      logger.warn({ id: item.id, type: item.type, epoch: item.epoch }, 'lease lost: another worker has the process')
    }
  }

  return {
    topic: `queue:${queue}`,
    source: replySource(db.reserved, { domain, queue, logger, metrics }),
    handOver,
    /** Step-based processes are due when an operator has acted, or they have waited long enough. */
    due: processSource(db.reserved, () => managers.inDomain(domain).map(({ definition }) => definition)),
    look,
    async close(): Promise<void> {
      await recorder.close()
      await driver.close()
    },
  }
}

async function queueFor(domain: string, { outgoing, engine, logger }: Parts): Promise<string | undefined> {
  try {
    return await outgoing.replyQueue(replyQueue(domain))
  } catch (error) {
    const unfit = error instanceof HoldfastError && error.code === 'HF_INVALID_QUEUE_NAME'
    if (!unfit || engine.managers.inDomain(domain).length > 0) throw error
    logger.debug({ err: error, domain }, 'processes of this domain cannot send commands')
    return undefined
  }
}

function toIncoming({ id, epoch, message, notes, before }: ClaimedReply) {
  return {
    messageId: id,
    readCount: epoch,
    replyId: typeof message.reply_id === 'string' ? message.reply_id : null,
    final: isFinal(message),
    reply: toStoredReply(message, notes),
    before,
  }
}

const returnStatement = {
  name: 'processes.return-reply',
  text: 'select holdfast.return_reply($1, $2, $3, $4)',
}
