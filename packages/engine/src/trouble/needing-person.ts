import { type Executor, type Logger, type MetricLabels, type Metrics, noMetrics } from '../kernel/model/index.js'

const EVERY = 60_000

interface Row {
  readonly model: string
  readonly domain: string
  readonly type: string
  readonly count: number
  readonly oldest_seconds: number
}

/**
 * The gauges of what needs a person, by model, domain and type: how much, and for how long the oldest has waited.
 * Each worker measures, because a gauge that another worker has set last would stay as it was there.
 */
export function measureNeedingPerson(db: Executor, { metrics, logger }: { metrics: Metrics; logger: Logger }) {
  let known = new Map<string, MetricLabels>()

  async function measure(): Promise<void> {
    const rows = await db.run<Row & object>(statement)
    const now = new Map<string, MetricLabels>()
    for (const { model, domain, type, count, oldest_seconds } of rows) {
      const labels = { model, domain, type }
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
    measure().catch((error: unknown) => logger.debug({ err: error }, 'could not count work that needs a person'))
  const timer = setInterval(() => void measureQuietly(), EVERY).unref()
  void measureQuietly()
  return { stop: () => clearInterval(timer) }
}

const statement = {
  name: 'trouble.needing-person',
  text: `
    select model, domain, type, pg_catalog.count(*)::int as count,
      extract(epoch from holdfast.now() - pg_catalog.min(since))::float8 as oldest_seconds
    from holdfast.trouble
    group by model, domain, type`,
}
