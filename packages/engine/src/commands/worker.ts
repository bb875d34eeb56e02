import { HoldfastError } from '../kernel/errors.js'
import {
  type Batcher,
  createBatcher,
  type ModelWork,
  type Runtime,
  type WorkerParts,
  type WorkLoop,
} from '../kernel/model/index.js'
import { batchSource } from './batch-closer.js'
import type { Domains } from './domains.js'
import { createExecutor } from './executor.js'
import { type FinishWrite, finishCommands } from './queries/finish-commands.js'
import type { HandlerRegistry } from './registry.js'
import { commandSource } from './source.js'

interface CommandParts {
  readonly registry: HandlerRegistry
  readonly queues: Domains
}

/** What a worker does for commands: a loop per domain that has handlers here, and one that closes batches. */
export function commandWork(runtime: Runtime, parts: CommandParts, worker: WorkerParts): ModelWork {
  const { db } = runtime
  const { registry, queues } = parts
  const domains = new Map<string, Batcher<FinishWrite, void>>()
  let closesBatches = false
  return {
    async grow({ add, addOwn }) {
      if (!closesBatches) {
        closesBatches = true
        const run = async () => undefined
        addOwn(worker.loop({ source: batchSource(db), run, concurrency: 1, topic: 'batches', gate: 'none' }))
      }
      for (const domain of worker.domains()) {
        if (domains.has(domain) || !registry.domains().includes(domain)) continue
        const queue = await queues.ready(domain)
        const finishes = finishBatcher(runtime, domain, queue)
        domains.set(domain, finishes)
        add(domainLoop(runtime, { domain, queue, registry, finishes }, worker))
      }
    },
    has: () =>
      [...domains.keys()].flatMap((domain) =>
        registry.types(domain).map((type) => ({ model: 'commands' as const, name: `${domain}/${type}` })),
      ),
    async close() {
      await Promise.all([...domains.values()].map((finishes) => finishes.close(1_000)))
    },
  }
}

function finishBatcher({ db, logger, metrics }: Runtime, domain: string, queue: string): Batcher<FinishWrite, void> {
  return createBatcher<FinishWrite, void>({
    name: 'commands.finish',
    key: (write) => write.messageId,
    flush: async (writes) => {
      const answers = await finishCommands(db, queue, domain, writes)
      return writes.map(({ commandId, attempt }, place) => {
        const answer = answers[place]
        if (answer === 'done') return { done: undefined }
        if (answer === 'held') return 'held'
        return { failed: new HoldfastError('HF_LEASE_LOST', { id: commandId, epoch: String(attempt) }) }
      })
    },
    // Two flushes of 250 cost PostgreSQL a tenth more than one of 500, and end no sooner.
    secondLaneFrom: 500,
    logger,
    metrics,
  })
}

interface DomainParts extends Pick<CommandParts, 'registry'> {
  readonly domain: string
  readonly queue: string
  readonly finishes: Batcher<FinishWrite, void>
}

/** The loop of one domain's commands. */
function domainLoop(runtime: Runtime, parts: DomainParts, { settings, loop }: WorkerParts): WorkLoop {
  const { db, metrics, logger } = runtime
  const { domain, queue, registry } = parts
  const source = commandSource(db.reserved, { domain, queue, types: () => registry.types(domain), metrics, logger })
  const run = createExecutor({
    ...runtime,
    ...parts,
    ...settings,
    extend: async (lease, milliseconds) => {
      const { lost } = await source.extend([lease.item], milliseconds)
      if (lost.length > 0) {
        throw new HoldfastError('HF_LEASE_LOST', { id: lease.item.commandId, epoch: String(lease.item.epoch) })
      }
      lease.extended(milliseconds)
    },
  })
  return loop({ source, run, concurrency: settings.concurrency, topic: `commands:${domain}` })
}
