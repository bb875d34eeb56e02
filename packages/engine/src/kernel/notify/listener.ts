import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../database/database.js'
import type { DirectConnection } from '../database/direct.js'
import { quoteIdentifier } from '../database/schema-name.js'
import { newId } from '../ids/id.js'
import { type Logger, silentLogger } from '../logger.js'
import { createBackoff } from '../retry/backoff.js'

/** One LISTEN connection for all workers of a process. */
export interface Listener {
  /** Calls `wake` when something of the topic may have become due. Returns a function that ends this. */
  subscribe(topic: string, wake: () => void): () => void
  /** Whether notifications are known to arrive. Otherwise workers only poll. */
  readonly isListening: boolean
  close(): Promise<void>
}

interface ListenerOptions {
  readonly logger?: Logger
  /** How long to wait for the notification that we send to ourselves. */
  readonly proofMs?: number
  /** How often to send one: a connection that a firewall has dropped looks alive and receives nothing. */
  readonly proveEveryMs?: number
}

/**
 * Listens on a connection of its own, which it opens again whenever it is lost. A pooler in transaction mode accepts
 * LISTEN and never delivers anything, so each connection proves itself by a notification of our own, at first and now
 * and then.
 */
export function startListener(db: Database, options: ListenerOptions = {}): Listener {
  const { logger = silentLogger, proofMs = 2_000, proveEveryMs = 30_000 } = options
  const buckets = new Map<string, Set<() => void>>()
  const closing = new AbortController()
  const closed = new Promise<void>((resolve) => {
    closing.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  let connection: DirectConnection | undefined
  let listening = false
  let awaited: { readonly proof: string; readonly arrived: () => void } | undefined

  async function keepListening(): Promise<void> {
    const backoff = createBackoff({ base: 100, cap: 10_000 })
    while (!closing.signal.aborted) {
      try {
        const { lost } = await listen()
        await prove(lost)
        listening = true
        backoff.reset()
        // Notifications may have been missed before: every loop polls once.
        wakeAll()
        while ((await Promise.race([lost, sleep(proveEveryMs, 'quiet', { ref: false })])) === 'quiet') await prove(lost)
      } catch (error) {
        if (closing.signal.aborted) return
        logger.warn({ err: error }, 'not listening for wake-ups; workers poll meanwhile')
      }
      listening = false
      await connection?.close().catch(() => undefined)
      await sleep(backoff.next(), undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }

  /** `lost` resolves when the connection is lost, or no longer wanted. */
  async function listen(): Promise<{ lost: Promise<unknown> }> {
    const direct = await db.connect()
    connection = direct
    const broken = new Promise<void>((resolve) => direct.onLost(() => resolve()))
    const [row] = await direct.run<{ channel: string }>(channelStatement)
    direct.onNotification((_channel, payload) => {
      if (payload === awaited?.proof) awaited.arrived()
      else for (const wake of buckets.get(payload) ?? []) wake()
    })
    await direct.query(`listen ${quoteIdentifier(row?.channel ?? '')}`)
    return { lost: Promise.race([broken, closed]) }
  }

  async function prove(lost: Promise<unknown>): Promise<void> {
    const proof = newId()
    const arrival = new Promise<void>((arrived) => {
      awaited = { proof, arrived }
    })
    await db.run(proofStatement, [proof])
    await Promise.race([arrival, lost, tooLate(proofMs)])
  }

  function wakeAll(): void {
    for (const wakes of buckets.values()) for (const wake of wakes) wake()
  }

  async function join(topic: string, wake: () => void): Promise<void> {
    const [row] = await db.run<{ bucket: string }>(bucketStatement, [topic])
    const bucket = row?.bucket ?? ''
    const wakes = buckets.get(bucket) ?? new Set()
    buckets.set(bucket, wakes.add(wake))
    wake()
  }

  const ended = keepListening()
  return {
    subscribe(topic, wake) {
      let wanted = true
      const once = () => {
        if (wanted) wake()
      }
      const backoff = createBackoff({ base: 100, cap: 10_000 })
      void (async () => {
        while (wanted && !closing.signal.aborted) {
          try {
            return await join(topic, once)
          } catch (error) {
            logger.debug({ err: error, topic }, 'could not subscribe to wake-ups yet')
            await sleep(backoff.next(), undefined, { signal: closing.signal }).catch(() => undefined)
          }
        }
      })()
      return () => {
        wanted = false
        for (const wakes of buckets.values()) wakes.delete(once)
      }
    },
    get isListening() {
      return listening
    },
    async close() {
      closing.abort()
      await connection?.close().catch(() => undefined)
      await ended
    },
  }
}

async function tooLate(milliseconds: number): Promise<never> {
  await sleep(milliseconds, undefined, { ref: false })
  throw new Error(
    'LISTEN was accepted but nothing arrives, as behind a pooler in transaction mode: give `directConnectionString`',
  )
}

const channelStatement = { name: 'notify.channel', text: 'select holdfast.wake_channel() as channel' }
const bucketStatement = { name: 'notify.bucket', text: 'select holdfast.wake_bucket_of($1::text)::text as bucket' }
const proofStatement = { name: 'notify.proof', text: 'select pg_catalog.pg_notify(holdfast.wake_channel(), $1::text)' }
