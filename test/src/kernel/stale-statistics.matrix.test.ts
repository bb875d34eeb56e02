import { openTestBus, sampled, type TestBus, waitFor } from '@holdfast/testing/internal'
import {
  BusinessError,
  defineCommand,
  defineDispatch,
  defineProcess,
  defineWorkflow,
  type Metrics,
  processTarget,
} from 'holdfast'
import { expect, test } from 'vitest'
import { z } from 'zod'

// The planner knows nothing, or something that is no longer true, until autovacuum analyzes a table; in a large table it
// does not do so for one batch. Rows are counted, because time says nothing on a busy machine.

const BACKLOG = 4_000
const WORKED = 300
/** What one item may read, however much else is in the tables: its own rows, a few times over. */
const ROWS_PER_ITEM = 40

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
const numbered = z.object({ n: z.number() })
const past = new Date('2020-01-01T00:00:00Z')

/** The first calls go on while heartbeats keep their leases. */
const HELD = 10
const BEATS = 6
/** Calls of user code so far. */
let called = 0
/** Heartbeats so far, by model. */
const beats = new Map<string, number>()
const metrics: Metrics = {
  count: () => undefined,
  observe: () => undefined,
  gauge(name, { model }) {
    if (name === 'oldest_due_seconds') beats.set(model, (beats.get(model) ?? 0) + 1)
  },
}

async function call(): Promise<void> {
  called += 1
  if (called <= HELD)
    await waitFor('the leases are kept', () => Math.max(0, ...beats.values()) >= BEATS, { timeout: 60_000 })
}

const Do = defineCommand('stale', 'Do', { retry: { maxAttempts: 1 } })
const Reserve = defineProcess('stale', 'Reserve', {
  state: numbered,
  responses: { told: { data: z.number() } },
  async execute(ctx, { n }) {
    await ctx.step('reserve', call, { compensate: () => undefined })
    await ctx.command('pay', Do, null)
    await ctx.event('told', 'told')
    if (n % 2 === 1) throw new BusinessError('no')
  },
})
const Ship = defineWorkflow('test', 'Ship')
  .step('pack', 'pack')
  .onFailure('unpack', 'unpack')
  .step('send', 'send')
  .build()
const Settle = defineProcess('stale', 'Settle', {
  state: numbered,
  execute: call,
})
const Settlement = defineDispatch('stale-settlement', 'Items', {
  target: processTarget(Settle),
  settings: { dispatchInterval: 0, jitterWindow: 0, batchSize: 100, maxBatchesAhead: 2 },
})

function registerAll({ hf }: TestBus): void {
  hf.handle(Do, async (data) => {
    await call()
    if (Number(data) % 3 === 1) throw new BusinessError('no')
    if (Number(data) % 3 === 2) throw new Error('fails')
  })
  hf.register(Reserve)
  hf.register(Settle)
  hf.register(Ship)
  hf.register(Settlement)
  hf.handle('pack', async (input) => {
    await call()
    return input
  })
  hf.handle('unpack', () => undefined)
  hf.handle('send', async (input) => {
    await call()
    if ((input as { n: number }).n % 2 === 1) throw new BusinessError('no')
    return input
  })
}

const sendMany = async ({ hf }: TestBus) => {
  await hf.sendMany(
    Do,
    numbers(BACKLOG).map((n) => ({ data: n * 3 })),
  )
}
const createBatch = async ({ hf }: TestBus) => {
  await hf.batches.create(
    Do,
    numbers(BACKLOG).map((data) => ({ data })),
  )
}

/** What the tables hold when the work begins. */
const cases: Record<string, (bus: TestBus) => Promise<void>> = {
  'commands of a batch': createBatch,
  async 'commands of a batch after many without one'(bus) {
    await sendMany(bus)
    // As if they had been worked off; the statistics say that no command has a batch.
    await bus.sql(`update holdfast.command set status = 'COMPLETED', msg_id = null`)
    await bus.sql('select pgmq.purge_queue(queue) from holdfast.command_queue')
    await bus.sql('analyze')
    await createBatch(bus)
  },
  async processes({ hf }) {
    const started = await hf.startMany(
      Reserve,
      numbers(BACKLOG).map((n) => ({ input: { n } })),
    )
    await Promise.all(started.slice(0, 1_000).map(({ id }, n) => hf.process(Reserve, id).respond('told', n)))
  },
  async workflows({ hf }) {
    await Promise.all(numbers(BACKLOG).map((n) => hf.start(Ship, { n })))
  },
  async dispatch({ hf }) {
    const later = new Date(Date.now() + 86_400_000)
    await hf.startMany(
      Settle,
      numbers(BACKLOG).map((n) => ({ input: { n }, startAt: later })),
    )
    await hf.schedule(
      Settlement,
      numbers(BACKLOG).map((n) => ({ key: `PAY-${n}`, context: { n }, startAt: past })),
    )
  },
}

/** An installation in which no table is analyzed by itself. */
async function openUnattended(): Promise<TestBus> {
  const bus = await openTestBus()
  registerAll(bus)
  await bus.hf.send(Do, null)
  await bus.sql(`
    do $$
    declare
      v_table regclass;
    begin
      for v_table in
        select oid from pg_class where relnamespace in ('holdfast'::regnamespace, 'pgmq'::regnamespace) and relkind = 'r'
      loop
        execute format('alter table %s set (autovacuum_enabled = false)', v_table);
      end loop;
    end $$`)
  await bus.sql('analyze')
  return bus
}

/** How many rows were read so far, by each index and without one. */
async function rowsRead(bus: TestBus): Promise<Map<string, number>> {
  const rows = await bus.sql<{ name: string; rows: string }>(`
    select schemaname || '.' || relname || ' by ' || indexrelname as name, idx_tup_read as rows from pg_stat_user_indexes
    union all
    select schemaname || '.' || relname || ' whole', seq_tup_read from pg_stat_user_tables`)
  return new Map(rows.map(({ name, rows: read }) => [name, Number(read)]))
}

test.each(sampled(Object.entries(cases), 2))(
  'K-17 %s read a bounded number of rows each, also where the planner has no statistics',
  { timeout: 120_000 },
  async (_, fill) => {
    const filled = await openUnattended()
    await fill(filled)
    // Connections report what they read when they close.
    await filled.close()
    const { connectionString } = filled
    const bus = await openTestBus({ connectionString, metrics })
    const before = await waitFor('the rows of the backlog are counted', async () => {
      const read = await rowsRead(bus)
      return read.size > 0 ? read : undefined
    })
    registerAll(bus)
    called = 0
    beats.clear()
    const worker = await bus.hf.run({ poll: '20ms', concurrency: 20, lease: '1500ms' })
    await waitFor('some were called', () => called >= WORKED, { timeout: 90_000 })
    await worker.stop()
    await bus.close()
    const look = await openTestBus({ connectionString })
    const after = await rowsRead(look)
    const perItem = [...after]
      .map(([name, rows]) => ({ name, rows: (rows - (before.get(name) ?? 0)) / called }))
      .sort((a, b) => b.rows - a.rows)
    expect(perItem.filter(({ rows }) => rows > ROWS_PER_ITEM)).toEqual([])
    await look.close()
  },
)
