import { stopDeadAt, testDatabase, waitFor } from '@holdfast/testing/internal'
import { assemble, newId, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { onProcesses } from './definitions.js'

const ITEMS = 10_000
const DEATHS = 200
/** A death at each of the first so many statements of a dispatcher's life, over and over. */
const LONGEST_LIFE = 24
const CONFIG = { dispatchInterval: 0, jitterWindow: 0, batchSize: 10, maxBatchesAhead: null } as const
const DISPATCHER = { lease: '100ms', poll: '10ms' } as const

let connectionString: string
let pool: pg.Pool
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  pool = new pg.Pool({ connectionString, max: 4 })
})
afterAll(() => pool.end())

/** A dispatcher that stops dead before or after its n-th statement of dispatch, as if its process had been killed. */
async function liveAndDie(domain: string, life: number, over: () => boolean): Promise<'died' | 'lived'> {
  const name = `mortal ${newId()}`
  const mortal = stopDeadAt(life)
  const db = await openDatabase({
    connectionString,
    poolSize: 3,
    applicationName: name,
    faults: (point) => (mortal.dead || / dispatch\.(?!note)/.test(point) ? mortal.faults(point) : undefined),
  })
  const hf = assemble(db, {})
  const { Settlement } = onProcesses(domain, CONFIG)
  hf.register(Settlement)
  const worker = await hf.run({ name, ...DISPATCHER })
  await waitFor('it is dead, or all is over', () => mortal.dead || over(), { timeout: 280_000, every: 5 })
  const died = mortal.dead
  if (died) {
    worker.stopNow()
    await pool.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [name])
  } else await hf.close()
  return died ? 'died' : 'lived'
}

test(`D-07 two dispatchers, killed ${DEATHS} times between their statements, over ${ITEMS} items: each is started once, none before its time, and all end`, async () => {
  const domain = 'many-kills'
  const runs = new Map<number, number>()
  let early = 0
  const later = new Date(Date.now() + 5_000)
  const times = Array.from({ length: ITEMS }, (_, n) => (n % 2 === 0 ? new Date('2020-01-01T00:00:00Z') : later))
  const db = await openDatabase({ connectionString, poolSize: 6 })
  const hf = assemble(db, {})
  const { Pay, Settlement } = onProcesses(domain, CONFIG, (n) => {
    runs.set(n, (runs.get(n) ?? 0) + 1)
    if (Date.now() < (times[n]?.getTime() ?? 0)) early += 1
  })
  await hf.schedule(
    Settlement,
    times.map((startAt, n) => ({ key: `PAY-${n}`, context: { n }, startAt })),
  )
  hf.register(Pay)
  const executor = await hf.run({ concurrency: 50, poll: '20ms' })
  let deaths = 0
  let over = false
  const dispatching = [0, 1].map(async () => {
    while (!over) {
      const life = deaths >= DEATHS ? Number.POSITIVE_INFINITY : 1 + ((deaths * 7) % LONGEST_LIFE)
      if ((await liveAndDie(domain, life, () => over)) === 'died') deaths += 1
    }
  })
  let hurried = false
  const watching = waitFor(
    'all are completed',
    async () => {
      if (deaths >= DEATHS && !hurried) {
        hurried = true
        const by = { actor: 'a test', reason: 'enough have died' }
        await hf.dispatch.configure(Settlement, { batchSize: 500 }, by)
      }
      return (await hf.dispatch.depth(Settlement)).COMPLETED === ITEMS
    },
    { timeout: 280_000, every: 200 },
  ).finally(() => {
    over = true
  })
  await Promise.all([watching, ...dispatching])
  await executor.stop()
  expect(deaths).toBeGreaterThanOrEqual(DEATHS)
  expect(early).toBe(0)
  expect(runs.size).toBe(ITEMS)
  expect([...runs.values()].every((count) => count === 1)).toBe(true)
  const { rows } = await pool.query<{ executions: number; ids: number; retried: number; contexts: number }>(
    `select count(*)::int as executions, count(distinct detail.dispatch_item)::int as ids,
       (select sum(retry_count)::int from holdfast.dispatch_item) as retried,
       (select count(*)::int from holdfast.dispatch_context) as contexts
     from holdfast.process_detail as detail`,
  )
  expect(rows).toEqual([{ executions: ITEMS, ids: ITEMS, retried: 0, contexts: 0 }])
  await hf.close()
}, 300_000)
