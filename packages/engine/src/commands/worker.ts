import { createBatcher } from '../kernel/batching/batcher.js'
import { databaseUptimeMs } from '../kernel/clock/clock.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { RetryPolicy } from '../kernel/retry/retry-policy.js'
import type { Gate } from '../kernel/work/alone.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import { createExecutor } from './executor.js'
import { type FinishWrite, finishCommands } from './queries/finish-commands.js'
import type { HandlerRegistry } from './registry.js'
import { commandSource } from './source.js'

export interface CommandWorkerSettings {
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
  readonly timeoutMs: number | undefined
  readonly maxAttempts: number
  readonly retry: RetryPolicy
}

interface Parts {
  readonly db: Database
  readonly queue: string
  readonly registry: HandlerRegistry
  readonly codec: Codec
  readonly listener: Listener | undefined
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
  readonly abortGraceMs: number
  readonly inquireForMs: number
  readonly gate: Gate
}

/** The loop of one domain's commands (C-05). */
export function createCommandWorker(
  domain: string,
  settings: CommandWorkerSettings,
  { db, queue, registry, codec, listener, logger, metrics, reports, abortGraceMs, inquireForMs, gate }: Parts,
): WorkLoop {
  const types = () => registry.types(domain)
  const source = commandSource(db.reserved, { domain, queue, types, metrics, logger })
  const finishes = createBatcher<FinishWrite, void>({
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
  const run = createExecutor({
    db,
    domain,
    queue,
    registry,
    codec,
    finishes,
    retry: settings.retry,
    maxAttempts: settings.maxAttempts,
    timeoutMs: settings.timeoutMs,
    leaseMs: settings.leaseMs,
    abortGraceMs,
    inquireForMs,
    logger,
    reports,
    extend: async (lease, milliseconds) => {
      const { lost } = await source.extend([lease.item], milliseconds)
      if (lost.length > 0) {
        throw new HoldfastError('HF_LEASE_LOST', { id: lease.item.commandId, epoch: String(lease.item.epoch) })
      }
      lease.extended(milliseconds)
    },
  })
  const loop = createWorkLoop({
    source,
    run,
    worker: settings.name,
    concurrency: settings.concurrency,
    leaseMs: settings.leaseMs,
    pollMs: settings.pollMs,
    databaseUptimeMs: () => databaseUptimeMs(db),
    gate,
    ...(listener ? { onWake: (wake: () => void) => listener.subscribe(`commands:${domain}`, wake) } : {}),
    logger,
    metrics,
  })
  return {
    ...loop,
    async stop(timeout) {
      const answer = await loop.stop(timeout)
      await finishes.close(1_000)
      return answer
    },
    get isRunning() {
      return loop.isRunning
    },
    get inFlight() {
      return loop.inFlight
    },
  }
}

/** Notes that these types have a worker; a type that none has named for an hour counts as unhandled (C-09). */
export async function noteHandlers(db: Executor, domain: string, types: readonly string[]): Promise<void> {
  await db.run(seenStatement, [domain, types])
}

const seenStatement = {
  name: 'commands.note-handlers',
  text: `
    insert into holdfast.command_handler (domain, type, seen_at)
    select $1, type, holdfast.now() from pg_catalog.unnest($2::text[]) as type order by type
    on conflict (domain, type) do update set seen_at = excluded.seen_at`,
}
