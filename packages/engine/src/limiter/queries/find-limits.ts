import type { Executor } from '../../kernel/database/executor.js'
import { type BucketStatus, bucketStatus } from '../bucket-status.js'

/** A rate limit: its configuration and its present state. */
export interface RateLimit extends BucketStatus {
  readonly key: string
  readonly ticketsPerSecond: number
  /** The one in force, whether it was given or is one second's worth. */
  readonly burst: number
  readonly description: string | null
}

interface Row extends Pick<RateLimit, 'key' | 'ticketsPerSecond' | 'burst' | 'description'> {
  readonly lead_us: number
}

/** One limit, or all of them, by their keys. */
export async function findLimits(executor: Executor, key?: string): Promise<RateLimit[]> {
  const rows = await executor.run<Row>(findStatement, [key ?? null])
  return rows.map(({ lead_us, ...limit }) => ({
    key: limit.key,
    ticketsPerSecond: limit.ticketsPerSecond,
    burst: limit.burst,
    ...bucketStatus(limit, lead_us / 1000),
    description: limit.description,
  }))
}

const findStatement = {
  name: 'limits.find',
  text: `
    select
      rate_limit.resource_key as key,
      rate_limit.tickets_per_second as "ticketsPerSecond",
      effective.burst,
      rate_limit.description,
      case
        when bucket.resource_key is null then 0
        else holdfast.bucket_lead(bucket, rate_limit.tickets_per_second, effective.burst, holdfast.now())
      end as lead_us
    from holdfast.rate_limit
    cross join lateral holdfast.effective_burst(rate_limit.tickets_per_second, rate_limit.burst) as effective (burst)
    left join holdfast.rate_limit_bucket as bucket on bucket.resource_key = rate_limit.resource_key
    where $1::text is null or rate_limit.resource_key = $1
    order by rate_limit.resource_key`,
}
