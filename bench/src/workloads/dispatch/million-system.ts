import { setTimeout as sleep } from 'node:timers/promises'
import { type Holdfast, holdfast, type Metrics } from 'holdfast'
import type { DispatchSettings } from 'holdfast/types'
import pg from 'pg'
import { median } from '../../harness/comparison.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { Noop, scheduleAll, settlementOf } from './items.js'

const past = new Date('2020-01-01T00:00:00Z')
const MEGABYTE = 1_048_576
/** The first and the last so many batches are compared. */
const BATCHES = 20
const LOOK_EVERY_MS = 200

/** Phase A alone. */
export const scheduling: System = {
  name: 'holdfast schedule',
  version,
  role: 'holdfast',
  config: { callers: 2 },
  group: 'schedule',
  baseline: true,
  anythingLeft: 'select false',
  prepare: async ({ connectionString }) => (await holdfast({ connectionString })).close(),
  async open({ connectionString, items }) {
    const hf = await holdfast({ connectionString, migrate: false })
    return {
      work: () => scheduleAll(hf, settlementOf({}), items, past),
      close: () => hf.close(),
    }
  },
}

/** Released by one dispatcher, batch after batch, with nobody to execute them: what releasing itself costs. */
export function releasing(batchSize: number): System {
  const config = { batchSize, dispatchInterval: 0, maxBatchesAhead: null }
  return {
    ...released('holdfast release', { batch: batchSize }, config),
    group: 'release',
    baseline: batchSize === 500,
    anythingLeft: `select exists (select from holdfast.dispatch_item where due_at is not null)`,
    open: (task) => openRun(task, config, { executes: false }),
  }
}

/** Released and executed by the same worker: how many executions are live at most, and what the whole comes to. */
export function executing(batchSize: number, concurrency: number): System {
  const config = { batchSize, dispatchInterval: 0 }
  return {
    ...released('holdfast release and execute', { batch: batchSize, concurrency }, config),
    group: 'execute',
    baseline: true,
    // What executes is slower by far, and measured by process-steps.
    share: 0.1,
    anythingLeft: `select exists (select from holdfast.dispatch_item where status <> 'COMPLETED')`,
    open: (task) => openRun(task, config, { executes: true, concurrency }),
  }
}

function released(name: string, config: System['config'], settings: DispatchSettings) {
  return {
    name,
    version,
    role: 'holdfast',
    config,
    async prepare({ connectionString, items }: Task) {
      const hf = await holdfast({ connectionString })
      await scheduleAll(hf, settlementOf({ enabled: false, ...settings }), items, past)
      await hf.close()
    },
  } as const
}

async function openRun(
  { connectionString, items }: Task,
  config: DispatchSettings,
  options: { readonly executes: boolean; readonly concurrency?: number },
): Promise<Run> {
  const cycles: number[] = []
  const metrics: Metrics = {
    count() {},
    gauge() {},
    observe: (name, _labels, value) => name === 'dispatch_cycle_milliseconds' && cycles.push(value),
  }
  const hf = await holdfast({ connectionString, migrate: false, metrics })
  const client = new pg.Client(connectionString)
  await client.connect()
  const Settlement = settlementOf(config)
  hf.register(Settlement)
  if (options.executes) hf.register(Noop)
  let live = 0
  let seconds = 0
  let bytes = 0
  return {
    async work() {
      const worker = await hf.run({ poll: '20ms', concurrency: options.concurrency ?? 1 })
      const began = performance.now()
      await hf.dispatch.resume(Settlement, { actor: 'bench', reason: 'now' })
      const left = options.executes ? 'executions' : 'items'
      while (await anyLeft(client, left)) {
        await sleep(LOOK_EVERY_MS)
        live = Math.max(live, await liveRows(client))
      }
      seconds = (performance.now() - began) / 1000
      bytes = await sizeOf(client)
      await worker.stop()
    },
    figures() {
      const batches = cycles.filter((_, place) => place < cycles.length - 1)
      const first = median(batches.slice(0, BATCHES)) ?? 0
      const last = median(batches.slice(-BATCHES)) ?? 0
      return {
        value: items / seconds,
        details: {
          'first batches ms': first,
          'last batches ms': last,
          'last/first': last / first,
          'live rows': live,
          'MB in tables': bytes / MEGABYTE,
        },
      }
    },
    close: () => closeAll(hf, client),
  }
}

async function closeAll(hf: Holdfast, client: pg.Client): Promise<void> {
  await client.end()
  await hf.close()
}

async function anyLeft(client: pg.Client, what: 'items' | 'executions'): Promise<boolean> {
  const text =
    what === 'items'
      ? `select exists (select from holdfast.dispatch_item where due_at is not null) as left`
      : `select exists (select from holdfast.dispatch_context) as left`
  const { rows } = await client.query<{ left: boolean }>(text)
  return rows[0]?.left ?? false
}

/** Executions that have not ended. */
async function liveRows(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ live: number }>(
    `select count(*)::int as live from holdfast.process where due_at is not null`,
  )
  return rows[0]?.live ?? 0
}

/** Items and contexts, with their indexes. */
async function sizeOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ bytes: number }>(
    `select (pg_total_relation_size('holdfast.dispatch_item') + pg_total_relation_size('holdfast.dispatch_context'))::float8 as bytes`,
  )
  return rows[0]?.bytes ?? 0
}
