import { countStatements, startWorkerProcess, waitFor } from '@holdfast/testing/internal'
import { moveClock, newId } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinyFinishes, tinySource, tinyWorker, tinyWorkerScript } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

const isBegun = (message: unknown): message is { id: string } =>
  typeof message === 'object' && message !== null && 'what' in message && message.what === 'begun'
const isLost = (message: unknown): message is { id: string } =>
  typeof message === 'object' && message !== null && 'what' in message && message.what === 'lost'

const claimAll = { limit: 100, lanes: [{ type: 'a', from: null }], spareLeased: false, ceilingMs: 0 }

test('K-03 the work of a worker that was killed with kill -9 is picked up when its lease ends, and not before', async () => {
  const { db, connectionString, open } = await tinyDatabase()
  await enqueueTiny(db, 'a', 5)
  const leaseMs = 3_600_000
  const first = startWorkerProcess(tinyWorkerScript, { connectionString, worker: 'first', leaseMs, workMs: leaseMs })
  await waitFor('the first worker runs all five', async () => (await tinyBooks(db)).effects === 5)
  await first.kill()
  const statements = countStatements()
  const second = tinyWorker(await open({ faults: statements.faults }), {
    worker: 'second',
    leaseMs: 3_000,
    pollMs: 50,
  })
  second.loop.start()
  await waitFor('the second worker has polled', () => (statements.counts.get('tiny.claim') ?? 0) > 3)
  expect(await tinyBooks(db)).toMatchObject({ done: 0, effects: 5 })
  await moveClock(db, leaseMs)
  await waitFor('the second worker has done them', async () => (await tinyBooks(db)).done === 5)
  await second.close()
  expect(await tinyBooks(db)).toMatchObject({ done: 5, audits: 5, effects: 10 })
})

test('K-03 work longer than its lease is not run twice while its worker lives', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 20)
  const options = { leaseMs: 2_000, workMs: 5_000, pollMs: 50, concurrency: 10 }
  const workers = ['w1', 'w2', 'w3'].map((worker) => tinyWorker(db, { worker, ...options }))
  for (const { loop } of workers) loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 20)
  for (const worker of workers) await worker.close()
  expect(await tinyBooks(db)).toEqual({ items: 20, done: 20, repeated: 0, effects: 20, audits: 20 })
})

test('K-02 a zombie that wakes after its lease cannot write', async () => {
  const { db, connectionString } = await tinyDatabase()
  await enqueueTiny(db, 'a', 1)
  const options = { connectionString, leaseMs: 500, workMs: 400, pollMs: 50 }
  const zombie = startWorkerProcess(tinyWorkerScript, { ...options, worker: 'zombie' })
  await zombie.message('it has begun', isBegun)
  zombie.freeze()
  const heir = tinyWorker(db, { worker: 'heir', leaseMs: 1_500, pollMs: 50 })
  heir.loop.start()
  await waitFor('the heir has done it', async () => (await tinyBooks(db)).done === 1)
  zombie.thaw()
  await zombie.message('its lease is lost', isLost)
  expect(await tinyBooks(db)).toMatchObject({ done: 1, audits: 1, effects: 2 })
  await heir.close()
  await zombie.kill()
})

test('K-02 a zombie that writes while the next owner claims: whichever locks the row first, the other changes nothing', async () => {
  const { db, connectionString } = await tinyDatabase()
  const source = tinySource(db, ['a'])
  const client = new pg.Client({ connectionString })
  await client.connect()
  const finish = (id: string) =>
    client.query<{ answers: number[] }>('select holdfast.tiny_finish($1, $2, $3) as answers', [[id], [1], [newId()]])

  // The zombie's write is first and not committed: the claim passes the row by, and finds it finished afterwards.
  const [early = ''] = await enqueueTiny(db, 'a', 1)
  await source.claim({ ...claimAll, worker: 'zombie', leaseMs: 0 })
  await client.query('begin')
  expect((await finish(early)).rows[0]?.answers).toEqual([0])
  expect((await source.claim({ ...claimAll, worker: 'heir', leaseMs: 30_000 })).items).toEqual([])
  await client.query('commit')
  expect((await source.claim({ ...claimAll, worker: 'heir', leaseMs: 30_000 })).items).toEqual([])
  expect(await tinyBooks(db)).toMatchObject({ done: 1, audits: 1 })

  // The claim is first and not committed: the zombie's write is held, and after the commit its lease is lost.
  const [late = ''] = await enqueueTiny(db, 'a', 1)
  await source.claim({ ...claimAll, worker: 'zombie', leaseMs: 0 })
  await client.query('begin')
  const claim = "select items from holdfast.tiny_claim(array['a'], array[null::float8], 'heir', 10, 30000, false, 0)"
  expect((await client.query(claim)).rows[0]?.items).toHaveLength(1)
  const finishes = tinyFinishes(db)
  const zombies = finishes.write({ id: late, epoch: 1, token: newId() })
  zombies.catch(() => undefined)
  await waitFor('the zombie was told that the row is held', async () => finishes.pending === 1)
  await client.query('commit')
  await expect(zombies).rejects.toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await tinyBooks(db)).toMatchObject({ done: 1, audits: 1 })
  await client.end()
})

test("K-03 a caller's transaction held open for two leases costs no other work its lease", async () => {
  const { db, connectionString } = await tinyDatabase()
  const [heldId] = await enqueueTiny(db, 'a', 50)
  const leaseMs = 2_000
  const lost: string[] = []
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const worker = tinyWorker(db, {
    worker: 'w',
    leaseMs,
    pollMs: 50,
    concurrency: 50,
    work: () => released,
    onItem: ({ what, id }) => void (what === 'lost' && lost.push(id)),
  })
  const other = tinyWorker(db, { worker: 'other', leaseMs, pollMs: 50, concurrency: 50 })
  worker.loop.start()
  await waitFor('all fifty run', () => worker.loop.inFlight === 50)
  other.loop.start()
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('begin')
  await client.query('select from holdfast.tiny where id = $1 for update', [heldId])
  // Two leases of the database's time, during which only heartbeats can keep the other 49.
  await client.query('select pg_sleep($1)', [(leaseMs * 2) / 1_000])
  release()
  await waitFor('all but the held one are recorded', async () => (await tinyBooks(db)).done === 49)
  await client.query('commit')
  await client.end()
  await waitFor('the held one is recorded too', async () => (await tinyBooks(db)).done === 50)
  await worker.close()
  await other.close()
  // Of the held row itself nobody could extend the lease: whoever is first when it is freed has it, and records it once.
  expect(lost.filter((id) => id !== heldId)).toEqual([])
  const { done, audits, repeated } = await tinyBooks(db)
  expect({ done, audits }).toEqual({ done: 50, audits: 50 })
  expect(repeated).toBeLessThanOrEqual(lost.length)
})

test('K-02 a clock that jumps past every lease makes work run again but never be recorded twice', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 10)
  const options = { leaseMs: 30_000, pollMs: 50, concurrency: 10 }
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const before = tinyWorker(db, { worker: 'before', ...options, work: () => gate })
  before.loop.start()
  await waitFor('all run', () => before.loop.inFlight === 10)
  await moveClock(db, 3_600_000)
  const after = tinyWorker(db, { worker: 'after', ...options })
  after.loop.start()
  await waitFor('the other worker has done them', async () => (await tinyBooks(db)).done === 10)
  go()
  await before.close()
  await after.close()
  expect(await tinyBooks(db)).toEqual({ items: 10, done: 10, repeated: 10, effects: 20, audits: 10 })
})

test('K-04 no transaction is open and no lock is held while the code of an item runs', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 5)
  const worker = tinyWorker(db, {
    worker: 'w',
    leaseMs: 300,
    work: async (_item, lease) => {
      await waitFor('the lease was extended', () => lease.remaining() > 250)
      // Claims, extensions and flushes come and go meanwhile; what the running code held would still be there at each look.
      await waitFor('no session holds anything', async () => (await heldBySessions(db)).length === 0)
    },
  })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 5)
  await worker.close()
})

const heldBySessions = (db: Awaited<ReturnType<typeof tinyDatabase>>['db']) =>
  db.run({
    name: 'test.locks',
    text: `
      select activity.state, locks.locktype
      from pg_stat_activity activity
      left join pg_locks locks
        on locks.pid = activity.pid and locks.locktype in ('advisory', 'transactionid', 'tuple')
      where activity.datname = current_database()
        and activity.pid <> pg_backend_pid()
        and (activity.state like 'idle in transaction%' or (activity.state = 'idle' and locks.locktype is not null))`,
  })
