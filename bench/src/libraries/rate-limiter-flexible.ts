import { RateLimiterPostgres } from 'rate-limiter-flexible'
import { versionOf } from '../harness/version.js'
import { openPool } from './pool.js'

export const version = versionOf('rate-limiter-flexible')

export interface FlexibleLimiter {
  /** Undefined: granted. Otherwise refused, with how long its window lasts. */
  consume(key: string): Promise<number | undefined>
  close(): Promise<void>
}

/** Its PostgreSQL store: a counter per key and fixed window, one statement per call. */
export async function openFlexible(
  connectionString: string,
  limit: { readonly points: number; readonly duration: number },
  connections: number,
): Promise<FlexibleLimiter> {
  const pool = await openPool(connectionString, connections)
  const options = { storeClient: pool, storeType: 'pool', tableName: 'limits', clearExpiredByTimeout: false, ...limit }
  const limiter = await new Promise<RateLimiterPostgres>((resolve, reject) => {
    const opened: RateLimiterPostgres = new RateLimiterPostgres(options, (error) =>
      error ? reject(error) : resolve(opened),
    )
  })
  return {
    async consume(key) {
      try {
        await limiter.consume(key)
        return undefined
      } catch (refused) {
        if (refused instanceof Error) throw refused
        return (refused as { msBeforeNext: number }).msBeforeNext
      }
    },
    close: () => pool.end(),
  }
}
