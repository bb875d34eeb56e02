import { type Batcher, createBatcher, type Database, type Logger, type Metrics } from '../../kernel/model/index.js'
import type { DefinedProcess } from '../define.js'
import type { ClaimedReply } from '../queries/claim-replies.js'
import { type ReplyWrite, recordReplies } from '../queries/record-replies.js'
import type { ResponseAnswer, ResponseWrite } from '../queries/respond-processes.js'
import type { Respond } from '../respond.js'
import { isFinal, toStoredReply } from './message.js'

interface Options {
  readonly queue: string
  readonly respond: Respond
  readonly find: (name: string) => DefinedProcess | undefined
  readonly logger: Logger
  readonly metrics: Metrics
}

/** Delivers replies to processes of sequential code: the final one is their response `@command`. */
export function createReplyRecorder(db: Database, { queue, respond, find, logger, metrics }: Options) {
  const writes: Batcher<ReplyWrite, ResponseAnswer> = createBatcher<ReplyWrite, ResponseAnswer>({
    name: 'processes.record-replies',
    key: ({ messageId, response }) => `${response?.id ?? ''} ${messageId}`,
    flush: async (batch) =>
      (await recordReplies(db, queue, batch)).map((answer) => (answer.kind === 'held' ? 'held' : { done: answer })),
    logger,
    metrics,
  })

  return {
    async record(item: ClaimedReply): Promise<void> {
      const response = responseOf(item)
      if (!response) {
        const { message, processId } = item
        metrics.count('replies_ignored', { model: 'process-replies', type: item.processType })
        logger.info({ process: processId, command: message.command_id, outcome: message.outcome }, whyIgnored(item))
        await writes.write({ messageId: item.id })
        return
      }
      const answer = await writes.write({ messageId: item.id, response })
      if (answer.kind !== 'late') return
      // The process has ended without it: on record, and nothing is replayed.
      await respond.record({ name: item.processType }, response, find(item.processType))
      await writes.write({ messageId: item.id })
    },
    close: () => writes.close(1_000),
  }
}

const whyIgnored = ({ message }: ClaimedReply) =>
  isFinal(message)
    ? 'a reply that names no command: removed'
    : 'a provisional reply: its command waits for an operator, the process for the final one'

function responseOf({ processId, processType, message, notes }: ClaimedReply): ResponseWrite | undefined {
  const reply = toStoredReply(message, notes)
  if (!isFinal(message) || reply.commandId === null) return undefined
  return {
    id: processId,
    type: processType,
    name: '@command',
    responseId: `command:${reply.commandId}`,
    json: JSON.stringify(reply),
    notes: null,
  }
}
