// Drives the step-based processes of a domain. A worker delivers replies from the queue and processes that an operator or a
// time limit has made due. Handlers run on what was read, outside any transaction; what they decide is applied behind a
// fence, many processes in one statement, and decided again where a process has changed meanwhile
// (`kernel/model/decider.ts`). A reply must take effect at most once, and is removed with its effect.

import type { Outgoing } from '../../commands/index.js'
import { splitName } from '../../kernel/ids/name.js'
import {
  createDecider,
  type Database,
  type Decided,
  type EventGroup,
  type Executor,
  isTransient,
  type Runtime,
} from '../../kernel/model/index.js'
import { applyManaged, type ManagedWrite } from '../queries/apply-managed.js'
import { findCompletedCommands, type ManagedProcess, readManaged } from '../queries/read-managed.js'
import type { ManagerRegistry } from '../registry.js'
import { endOf } from '../report.js'
import { type DecisionInput, decide, type Incoming } from './decide.js'
import { encodeStepCommand } from './encode-step-command.js'
import { forgetGone, refusalIn, toRefusedError } from './refused-command.js'
import { isLate } from './time-limits.js'

interface Options extends Pick<Runtime, 'codec' | 'logger' | 'metrics' | 'reports'> {
  readonly queue: string
  readonly registry: ManagerRegistry
  readonly outgoing: Outgoing
}

/** A reply, and the process as it was read with it; without both, a process that is due. */
interface Delivery {
  readonly managed?: ManagedProcess
  readonly incoming?: Incoming
}

/** A process as it was read, and those of the replies that are still this worker's. */
interface Snapshot {
  readonly managed: ManagedProcess
  readonly replies: readonly Incoming[]
}

/** The write of one group of deliveries. */
interface DeliveriesWrite extends ManagedWrite {
  readonly deliveries: readonly Delivery[]
  readonly domain: string
}

export function createManagerDriver(db: Database, options: Options) {
  const { queue, registry, outgoing, codec, logger, metrics, reports } = options
  /** Why the command of a decision could not be sent: the next decision on these deliveries takes it into account. */
  const refused = new WeakMap<readonly Delivery[], DecisionInput['refused']>()
  const decider = createDecider<Delivery, Snapshot, DeliveriesWrite, void>(db, {
    name: 'processes.apply-managed',
    known: ({ events }) => sameSnapshot(events),
    read,
    decide: decideOn,
    write,
    written: report,
    missing: () => ({ done: undefined }),
    logger,
    metrics,
  })

  async function read(executor: Executor, groups: readonly EventGroup<Delivery>[]): Promise<Map<string, Snapshot>> {
    const asked = groups.map(({ id, events }) => ({ id, replies: repliesIn(events) }))
    const { managed, known, mine } = await readManaged(executor, queue, asked)
    return new Map(
      asked.flatMap(({ id, replies }) => {
        const process = managed.get(id)
        const left = replies
          .filter(({ messageId }) => mine.has(messageId))
          .map((reply) => ({ ...reply, before: known.get(reply.messageId) ?? {} }))
        return process ? [[id, { managed: process, replies: left }]] : []
      }),
    )
  }

  async function decideOn(
    { managed, replies }: Snapshot,
    { events: deliveries, token }: EventGroup<Delivery>,
  ): Promise<Decided<DeliveriesWrite, void>> {
    const outcomes = deliveries.map(() => ({ done: undefined }))
    const manager = registry.find(managed.type)
    const due = deliveries.some(({ incoming }) => incoming === undefined)
    if (!manager || (replies.length === 0 && !due)) return { outcomes }
    const { definition, handlers } = manager
    const completed = mayUndo({ managed, replies }) ? await findCompletedCommands(db, managed, undoneFrom(managed)) : []
    const messages = replies.map(({ messageId, readCount }) => ({ messageId, readCount }))
    for (;;) {
      const decision = decide({ managed, replies, completed, handlers, codec, refused: refused.get(deliveries) })
      const { send, moves } = decision
      try {
        const envelope = send ? await encodeStepCommand(outgoing, { ...definition, id: managed.id }, send) : undefined
        const written = { managed, token, messages, decision, rests: moves || due, envelope }
        return { outcomes, write: { ...written, deliveries, domain: definition.domain } }
      } catch (error) {
        if (!send || isTransient(error)) throw error
        refused.set(deliveries, { commandId: send.commandId, error })
      }
    }
  }

  /** One command that cannot be sent rolls back all; the batcher finds it by splitting, and it is the trouble of its process. */
  async function write(executor: Executor, writes: readonly DeliveriesWrite[]) {
    try {
      return await applyManaged(executor, queue, writes)
    } catch (error) {
      const refusal = refusalIn(error)
      const [first, ...others] = writes
      if (refusal === undefined || !first?.envelope || others.length > 0) throw error
      const { envelope, deliveries, domain } = first
      const mayHelp = forgetGone(outgoing, refusal, envelope, domain)
      const { commandId } = envelope
      refused.set(deliveries, mayHelp ? undefined : { commandId, error: toRefusedError(refusal, envelope) })
      return ['changed' as const]
    }
  }

  function report({ managed: { id, type }, decision: { ignored, suspension, moves } }: ManagedWrite): void {
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
    deliver: (managed: ManagedProcess, incoming: Incoming) => decider.apply(managed.id, { managed, incoming }),
    /** A process that is due: an operator has acted, or it has waited long enough. */
    check: (id: string) => decider.apply(id, {}),
    close: () => decider.close(1_000),
  }
}

const repliesIn = (deliveries: readonly Delivery[]) => deliveries.flatMap(({ incoming }) => incoming ?? [])

/** What was read with the replies holds only where all of them saw the same. */
function sameSnapshot(deliveries: readonly Delivery[]): Snapshot | undefined {
  const first = deliveries[0]?.managed
  const isSame = ({ managed }: Delivery) =>
    managed && managed.epoch === first?.epoch && managed.responses === first.responses
  return first && deliveries.every(isSame) ? { managed: first, replies: repliesIn(deliveries) } : undefined
}

function mayUndo({ managed, replies }: Snapshot): boolean {
  if (isLate(managed)) return true
  const { last, cancel, ahead } = managed
  const stored = [...replies.map(({ reply }) => reply), ...ahead.map(({ reply }) => reply), last.detail.reply]
  return cancel !== null || last.kind === 'COMPENSATION' || stored.some((reply) => reply && reply.outcome !== 'SUCCESS')
}

/** While it is being undone, only what lies before the command that is being undone is left. */
function undoneFrom({ last, seq }: ManagedProcess): number {
  return last.kind === 'COMPENSATION' ? (last.detail.of ?? 0) : seq + 1
}
