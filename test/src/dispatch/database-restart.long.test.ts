import { startEmbedded } from '@holdfast/embedded'
import { openTestBus, waitFor } from '@holdfast/testing/internal'
import { defineDispatch, defineProcess, processTarget } from 'holdfast'
import { installQueue, migrate, openDatabase } from 'holdfast/internal'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'

const RATE = 20
const BURST = 3
/** What begins up to a quarter of a second after its slot. */
const SLACK = RATE * 0.25 + 1
const COUNT = 80
const by = { actor: 'ann', reason: 'a test' }

/** How many more began in some span than burst and rate allow; 0 or less is within the bound. */
function worstExcess(times: readonly number[]): number {
  let worst = Number.NEGATIVE_INFINITY
  for (const [from, first] of times.entries()) {
    for (const [to, last] of times.slice(from).entries()) {
      worst = Math.max(worst, to + 1 - BURST - (RATE * (last - first)) / 1_000)
    }
  }
  return worst
}

test('D-14 the rate holds across a restart of the database: what missed its slot gets a new one', async () => {
  const server = await startEmbedded({ ephemeral: true, settings: { fsync: 'on', synchronous_commit: 'on' } })
  onTestFinished(() => server.stop())
  const { connectionString } = server
  const db = await openDatabase({ connectionString })
  await migrate(db)
  await installQueue(db)
  await db.close()
  const bus = await openTestBus({ connectionString })
  onTestFinished(() => bus.close())
  await bus.sql('create table public.begun (at timestamptz)')
  await bus.sql(`
    create function note_begin() returns trigger language plpgsql as $$
    begin
      insert into public.begun values (holdfast.now());
      return null;
    end $$`)
  await bus.sql(`
    create trigger note_begin after update on holdfast.process for each row
    when (new.dispatch_type is not null and old.leased_at is null and new.leased_at is not null and old.status = 'PENDING')
    execute function note_begin()`)
  await bus.hf.limits.set('restarted', { ticketsPerSecond: RATE, burst: BURST }, by)
  const Settle = defineProcess('restarted', 'Settle', { state: z.any(), execute: async () => undefined })
  const Settlement = defineDispatch('restarted', 'Items', {
    target: processTarget(Settle),
    settings: { rateLimitKey: 'restarted', dispatchInterval: '1s' },
  })
  bus.hf.register(Settlement)
  const startAt = new Date('2020-01-01T00:00:00Z')
  await bus.hf.schedule(
    Settlement,
    Array.from({ length: COUNT }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt })),
  )
  await bus.runProcesses(Settle, { concurrency: 50, lease: '2s' })
  const begun = async () =>
    (await bus.sql<{ at: Date }>('select at from begun order by at')).map(({ at }) => at.getTime())
  await waitFor('some have begun', async () => (await begun()).length >= 10)
  await server.kill()
  await server.restart()
  const before = await waitFor('the database is back', () => begun().catch(() => undefined))
  expect(before.length).toBeLessThan(COUNT)
  await waitFor(
    'all are completed',
    async () => (await bus.hf.dispatch.depth(Settlement).catch(() => undefined))?.COMPLETED === COUNT,
    { timeout: 60_000 },
  )
  expect(worstExcess(await begun())).toBeLessThanOrEqual(SLACK)
}, 120_000)
