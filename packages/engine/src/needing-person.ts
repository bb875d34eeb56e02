import type { Executor } from './kernel/database/executor.js'
import type { Logger } from './kernel/logger.js'
import { type MetricLabels, type Metrics, noMetrics } from './kernel/metrics/metrics.js'

const EVERY = 60_000

interface Row {
  readonly model: string
  readonly domain: string | null
  readonly type: string
  readonly count: number
  readonly oldest_seconds: number
}

/**
 * The gauges of what needs a person (K-21), by model, domain and type: how much, and for how long the oldest has waited.
 * Each worker measures, because a gauge that another worker has set last would stay as it was there.
 */
export function measureNeedingPerson(db: Executor, { metrics, logger }: { metrics: Metrics; logger: Logger }) {
  let known = new Map<string, MetricLabels>()

  async function measure(): Promise<void> {
    const rows = await db.run<Row & object>(statement)
    const now = new Map<string, MetricLabels>()
    for (const { model, domain, type, count, oldest_seconds } of rows) {
      const labels = domain === null ? { model, type } : { model, domain, type }
      now.set(JSON.stringify(labels), labels)
      metrics.gauge('needing_person', labels, count)
      metrics.gauge('oldest_needing_person_seconds', labels, oldest_seconds)
    }
    for (const [key, labels] of known) {
      if (now.has(key)) continue
      metrics.gauge('needing_person', labels, 0)
      metrics.gauge('oldest_needing_person_seconds', labels, 0)
    }
    known = now
  }

  if (metrics === noMetrics) return { stop() {} }
  const measureQuietly = () =>
    measure().catch((error: unknown) => logger.debug({ err: error }, 'could not count what needs a person'))
  const timer = setInterval(() => void measureQuietly(), EVERY).unref()
  void measureQuietly()
  return { stop: () => clearInterval(timer) }
}

const statement = {
  name: 'needing-person',
  text: `
    select model, domain, type, count, extract(epoch from holdfast.now() - oldest)::float8 as oldest_seconds
    from (
      select 'commands' as model, domain, type, pg_catalog.count(*)::int as count, pg_catalog.min(since) as oldest
      from holdfast.command_trouble
      group by domain, type
      union all
      select 'processes', pg_catalog.split_part(type, '/', 1), pg_catalog.split_part(type, '/', 2), pg_catalog.count(*)::int, pg_catalog.min(since)
      from holdfast.process_trouble
      group by type
      union all
      select 'workflows', null, workflow_name, pg_catalog.count(*)::int, pg_catalog.min(created_at)
      from holdfast.workflow_dead_letter
      group by workflow_name
      union all
      select 'dispatch', pg_catalog.split_part(item_type, '/', 1), pg_catalog.split_part(item_type, '/', 2), pg_catalog.count(*)::int, pg_catalog.min(since)
      from holdfast.dispatch_dead_letter
      group by item_type
    ) as needing`,
}
