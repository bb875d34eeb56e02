import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Claimed,
  createWorkLoop,
  type Database,
  databaseUptimeMs,
  type Lease,
  type Listener,
  type Logger,
  type Metrics,
  newId,
  type WorkLoop,
} from 'holdfast/internal'
import { tinyFinishes, tinySource } from './tiny-model.js'

export interface TinyWorkerOptions {
  readonly worker: string
  readonly types?: readonly string[]
  readonly concurrency?: number
  readonly leaseMs?: number
  readonly pollMs?: number
  /** How long each item's own code takes. */
  readonly workMs?: number
  readonly listener?: Listener
  readonly logger?: Logger
  readonly metrics?: Metrics
  /** Told when an item's code begins and how its record was taken. */
  readonly onItem?: (event: { readonly id: string; readonly what: 'begun' | 'recorded' | 'lost' }) => void
  /** The item's own code, after its effect was noted; `workMs` of sleep unless given. */
  readonly work?: (item: Claimed, lease: Lease) => Promise<void>
}

/** A worker of the tiny model: each item notes an effect outside our transactions, takes its time, and is finished. */
export function tinyWorker(db: Database, options: TinyWorkerOptions): { loop: WorkLoop; close(): Promise<void> } {
  const { worker, types = ['a'], onItem, listener, work = () => sleep(options.workMs ?? 0) } = options
  const finishes = tinyFinishes(db, options.metrics ? { metrics: options.metrics } : {})
  const loop = createWorkLoop<Claimed>({
    source: tinySource(db, types),
    worker,
    concurrency: options.concurrency ?? 10,
    leaseMs: options.leaseMs ?? 30_000,
    pollMs: options.pollMs ?? 200,
    databaseUptimeMs: () => databaseUptimeMs(db),
    ...(listener ? { onWake: (wake) => subscribeAll(listener, types, wake) } : {}),
    ...(options.logger ? { logger: options.logger } : {}),
    ...(options.metrics ? { metrics: options.metrics } : {}),
    run: async (item, lease) => {
      onItem?.({ id: item.id, what: 'begun' })
      await db.run(effectStatement, [item.id, item.epoch, worker])
      await work(item, lease)
      try {
        await finishes.write({ id: item.id, epoch: item.epoch, token: newId() })
        onItem?.({ id: item.id, what: 'recorded' })
      } catch (error) {
        if (!isLostLease(error)) throw error
        onItem?.({ id: item.id, what: 'lost' })
      }
    },
  })
  return {
    loop,
    async close() {
      await loop.stop(10_000)
      await finishes.close(1_000)
    },
  }
}

function subscribeAll(listener: Listener, types: readonly string[], wake: () => void): () => void {
  const ends = types.map((type) => listener.subscribe(`tiny:${type}`, wake))
  return () => {
    for (const end of ends) end()
  }
}

function isLostLease(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'HF_LEASE_LOST'
}

const effectStatement = {
  name: 'tiny.effect',
  text: 'insert into holdfast.tiny_effect (tiny_id, epoch, worker) values ($1, $2, $3)',
}
