import type { Envelope, Outgoing } from '../../commands/index.js'
import { type Batcher, createBatcher } from '../../kernel/batching/batcher.js'
import type { Codec } from '../../kernel/codec/codec.js'
import type { Database } from '../../kernel/database/database.js'
import { isTransient } from '../../kernel/database/transient.js'
import { newId } from '../../kernel/ids/id.js'
import { splitName } from '../../kernel/ids/name.js'
import type { Logger } from '../../kernel/logger.js'
import type { Metrics } from '../../kernel/metrics/metrics.js'
import type { Reports } from '../../kernel/reports/reports.js'
import { applyManaged, type ManagedAnswer, type ManagedWrite } from '../queries/apply-managed.js'
import { findCompletedCommands, type ManagedProcess, readManaged } from '../queries/read-managed.js'
import type { ManagerRegistry, RegisteredManager } from '../registry.js'
import { endOf } from '../report.js'
import { type Decision, type DecisionInput, decide, type Incoming } from './decide.js'
import { createDeliveryQueues, type Delivery } from './delivery-queues.js'
import { encodeStepCommand } from './encode-step-command.js'
import { forgetGone, refusalIn, toRefusedError } from './refused-command.js'
import { isLate } from './time-limits.js'

interface Options {
  readonly queue: string
  readonly registry: ManagerRegistry
  readonly outgoing: Outgoing
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
}

/** What arrived for one process, and the process as it was read. */
interface PendingDecision {
  readonly manager: RegisteredManager
  readonly managed: ManagedProcess
  readonly replies: readonly Incoming[]
  /** An operator has acted: the status is written in any case. */
  readonly due: boolean
}

/**
 * Drives the step-based processes of a domain. Handlers run on what was read, outside any transaction; what they decide
 * is applied behind a fence, many processes in one statement, and decided again where a process has changed meanwhile.
 */
export function createManagerDriver(db: Database, options: Options) {
  const { queue, registry, outgoing, codec, logger, metrics, reports } = options
  const writes: Batcher<ManagedWrite, ManagedAnswer> = createBatcher<ManagedWrite, ManagedAnswer>({
    name: 'processes.apply-managed',
    key: ({ managed }) => managed.id,
    flush: (batch) => applyManaged(db, queue, batch),
    logger,
    metrics,
  })
  const deliveryQueues = createDeliveryQueues(handle)

  async function handle(id: string, deliveries: readonly Delivery[]): Promise<void> {
    let replies = deliveries.flatMap(({ incoming }) => incoming ?? [])
    const due = deliveries.some(({ incoming }) => incoming === undefined)
    let managed = sameSnapshot(deliveries)
    for (;;) {
      if (!managed) {
        const now = await readManaged(db, queue, { id, replies: replies.map((reply) => askedFor(id, reply)) })
        // Those that another reader has taken meanwhile are that reader's.
        replies = replies
          .filter(({ messageId }) => now.mine.has(messageId))
          .map((reply) => ({ ...reply, before: now.known.get(reply.messageId) ?? {} }))
        if (!now.managed || (replies.length === 0 && !due)) return
        managed = now.managed
      }
      const manager = registry.find(managed.type)
      if (!manager || (await applied({ manager, managed, replies, due })) === 'done') return
      managed = undefined
    }
  }

  async function applied(pending: PendingDecision): Promise<ManagedAnswer> {
    const { managed, replies, due, manager } = pending
    const completed = mayUndo(pending) ? await findCompletedCommands(db, managed, undoneFrom(managed)) : []
    const question: DecisionInput = { managed, replies, completed, handlers: manager.handlers, codec }
    const messages = replies.map(({ messageId, readCount }) => ({ messageId, readCount }))
    let refused: DecisionInput['refused']
    for (;;) {
      const decision = decide({ ...question, refused })
      let envelope: Envelope | undefined
      try {
        const process = { ...manager.definition, id: managed.id }
        envelope = decision.send ? await encodeStepCommand(outgoing, process, decision.send) : undefined
        const token = newId()
        const rests = decision.moves || due
        const answer = await writes.write({ managed, token, messages, decision, rests, envelope })
        if (answer === 'done') report(managed, decision)
        return answer
      } catch (error) {
        refused = refusalOf(error, pending, decision, envelope)
      }
    }
  }

  /** A command that cannot be sent is its process's trouble; anything else is not for handlers. */
  function refusalOf(error: unknown, { manager }: PendingDecision, { send }: Decision, envelope: Envelope | undefined) {
    if (!send || isTransient(error)) throw error
    if (!envelope) return { commandId: send.commandId, error }
    const refusal = refusalIn(error)
    if (refusal === undefined) throw error
    if (forgetGone(outgoing, refusal, envelope, manager.definition.domain)) return undefined
    return { commandId: send.commandId, error: toRefusedError(refusal, envelope) }
  }

  function report({ id, type }: ManagedProcess, { ignored, suspension, moves }: Decision): void {
    for (const { reply, final } of ignored) {
      metrics.count('replies_ignored', { model: 'process-replies', type })
      const why = final
        ? 'a reply that changes nothing: removed'
        : 'a provisional reply that no step waits for: removed'
      logger.info({ process: id, type, command: reply.commandId, outcome: reply.outcome }, why)
    }
    const what = { model: 'processes', ...splitName(type), id, step: suspension.waitingFor.step } as const
    const end = moves ? endOf(suspension.status) : undefined
    if (end) reports.ended(what, end)
    if (moves && suspension.status === 'WAITING_FOR_TSQ' && suspension.error)
      reports.needsPerson(what, suspension.error)
  }

  return {
    /** A reply from the queue; resolves when it is applied and removed, or belongs to another worker. */
    deliver: (managed: ManagedProcess, incoming: Incoming) => deliveryQueues.put(managed.id, { managed, incoming }),
    /** A process that an operator has made due. */
    check: (id: string) => deliveryQueues.put(id, {}),
    close: () => writes.close(1_000),
  }
}

/** What was read with the replies holds only where all of them saw the same. */
function sameSnapshot(deliveries: readonly Delivery[]): ManagedProcess | undefined {
  const first = deliveries[0]?.managed
  return deliveries.every(
    ({ managed }) => managed && managed.epoch === first?.epoch && managed.responses === first.responses,
  )
    ? first
    : undefined
}

function mayUndo({ managed, replies }: PendingDecision): boolean {
  if (isLate(managed)) return true
  const { last, cancel, ahead } = managed
  const stored = [...replies.map(({ reply }) => reply), ...ahead.map(({ reply }) => reply), last.detail.reply]
  return cancel !== null || last.kind === 'COMPENSATION' || stored.some((reply) => reply && reply.outcome !== 'SUCCESS')
}

/** While it is being undone, only what lies before the command that is being undone is left. */
function undoneFrom({ last, seq }: ManagedProcess): number {
  return last.kind === 'COMPENSATION' ? (last.detail.of ?? 0) : seq + 1
}

function askedFor(processId: string, { messageId, readCount, reply, replyId }: Incoming) {
  return { messageId, readCount, processId, commandId: reply.commandId, replyId }
}
