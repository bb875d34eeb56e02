import { holdAt, openTestBus, startPgBouncer, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { holdfast } from '../holdfast.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
const items = (count: number) => Array.from({ length: count }, (_, data) => ({ data }))
/** A handler that waits to be let go, and what it saw meanwhile. */
function gated() {
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const seen = { running: 0, most: 0, ended: 0 }
  const handler = async () => {
    seen.running += 1
    seen.most = Math.max(seen.most, seen.running)
    await gate
    seen.running -= 1
    seen.ended += 1
  }
  return { handler, seen, open: () => open() }
}

test.each([1, 7])('C-15 WK-2 no more than %i handlers of a worker run at once', async (concurrency) => {
  const Do = defineCommand(`limited-${concurrency}`, 'Do')
  const seen = { running: 0, most: 0, ended: 0 }
  await bus.hf.sendMany(Do, items(60))
  await bus.work(
    Do,
    async () => {
      seen.running += 1
      seen.most = Math.max(seen.most, seen.running)
      await new Promise((resolve) => setImmediate(resolve))
      seen.running -= 1
      seen.ended += 1
    },
    { concurrency },
  )
  await waitFor('all have run', () => seen.ended === 60)
  expect(seen.most).toBe(concurrency)
})

test('C-05 the default concurrency is 4', async () => {
  const Do = defineCommand('default', 'Do')
  const { handler, seen, open } = gated()
  await bus.hf.sendMany(Do, items(10))
  const worker = await bus.work(Do, handler)
  await waitFor('four run', () => seen.running === 4)
  expect(worker.inFlightCount).toBe(4)
  open()
  await waitFor('all have run', () => seen.ended === 10)
  expect(seen.most).toBe(4)
})

test('C-15 WK-10 inFlightCount is the number of handlers that run', async () => {
  const Do = defineCommand('counted', 'Do')
  const { handler, seen, open } = gated()
  const worker = await bus.work(Do, handler, { concurrency: 10 })
  expect(worker.inFlightCount).toBe(0)
  const [first] = (await bus.hf.sendMany(Do, items(3))).map(({ id }) => id)
  await waitFor('three run', () => seen.running === 3)
  expect(worker.inFlightCount).toBe(3)
  open()
  await bus.hf.command(Do, first ?? '').result()
  await waitFor('nobody runs', () => worker.inFlightCount === 0)
})

test('C-15 WK-9 stop waits for what runs, claims nothing more, and is not running while it stops', async () => {
  const Do = defineCommand('draining', 'Do')
  const { handler, seen, open } = gated()
  const ids = (await bus.hf.sendMany(Do, items(6))).map(({ id }) => id)
  const worker = await bus.work(Do, handler, { concurrency: 2 })
  await waitFor('two run', () => seen.running === 2)
  expect(worker.isRunning).toBe(true)
  const stopped = worker.stop('10s')
  expect(worker.isRunning).toBe(false)
  expect(worker.inFlightCount).toBe(2)
  open()
  expect(await stopped).toEqual({ abandoned: 0 })
  expect(seen.ended).toBe(2)
  const statuses = await Promise.all(ids.map(async (id) => (await bus.hf.command(Do, id).get()).status))
  expect(statuses.toSorted()).toEqual(['COMPLETED', 'COMPLETED', 'PENDING', 'PENDING', 'PENDING', 'PENDING'])
  expect(
    (await bus.hf.commands.list({ domain: 'draining', status: 'PENDING' })).items.map(({ attempts }) => attempts),
  ).toEqual([0, 0, 0, 0])
  expect(await worker.stop()).toEqual({ abandoned: 0 })
  worker.stopNow()
})

test('C-05 stop with a timeout abandons handlers that take longer; other workers continue when their leases end', async () => {
  const Do = defineCommand('abandoned', 'Do')
  const other = await openTestBus({ connectionString: bus.connectionString })
  let aborted = false
  const worker = await bus.work(
    Do,
    (_, ctx) =>
      new Promise(() => {
        ctx.signal.addEventListener('abort', () => {
          aborted = true
        })
      }),
    { lease: '2s' },
  )
  const { id } = await bus.hf.send(Do, null)
  await waitFor('it runs', () => worker.inFlightCount === 1)
  expect(await worker.stop('20ms')).toEqual({ abandoned: 1 })
  expect(aborted).toBe(true)
  await other.work(Do, (_, ctx) => ctx.attempt)
  // Interrupted in order: that was no attempt.
  expect(await other.hf.command(Do, id).result()).toBe(1)
  await other.close()
})

test('C-05 stopNow aborts running handlers and does not wait for them', async () => {
  const Do = defineCommand('now', 'Do')
  let reason: unknown
  const worker = await bus.work(
    Do,
    (_, ctx) =>
      new Promise(() => {
        ctx.signal.addEventListener('abort', () => {
          reason = ctx.signal.reason
        })
      }),
  )
  await bus.hf.send(Do, null)
  await waitFor('it runs', () => worker.inFlightCount === 1)
  worker.stopNow()
  expect(worker.isRunning).toBe(false)
  await waitFor('the handler heard of it', () => reason)
  expect(reason).toMatchObject({ code: 'HF_STOPPED' })
})

test('C-15 WK-11 a thousand handlers run at once', async () => {
  const Do = defineCommand('thousand', 'Do')
  const { handler, seen, open } = gated()
  await bus.hf.sendMany(Do, items(1_000))
  const worker = await bus.work(Do, handler, { concurrency: 1_000 })
  await waitFor('all run at once', () => seen.running === 1_000)
  expect(worker.inFlightCount).toBe(1_000)
  open()
  await waitFor('all are completed', async () => {
    const [row] = await bus.sql<{ count: number }>(
      `select count(*)::int from holdfast.command where domain = 'thousand' and status = 'COMPLETED'`,
    )
    return row?.count === 1_000
  })
})

test('C-05 leases are extended while handlers run longer than a lease', async () => {
  const Do = defineCommand('long', 'Do')
  const { handler, seen, open } = gated()
  // Long enough for a process that stands still for seconds on a busy machine.
  await bus.work(Do, handler, { lease: '5s' })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('it runs', () => seen.running === 1)
  const [{ vt } = { vt: new Date(0) }] = await bus.sql<{ vt: Date }>('select vt from pgmq.q_long__commands')
  await waitFor('its lease was extended a few times', async () => {
    const [row] = await bus.sql<{ vt: Date }>('select vt from pgmq.q_long__commands')
    return (row?.vt.getTime() ?? 0) > vt.getTime() + 3_000
  })
  open()
  await bus.hf.command(Do, id).result()
  expect(seen.ended).toBe(1)
  expect((await bus.hf.command(Do, id).get()).attempts).toBe(1)
})

test('C-06 extend keeps a lease for at least the given time, and never shortens it', async () => {
  const Do = defineCommand('extended', 'Do')
  const left: number[] = []
  await bus.work(Do, async (_, ctx) => {
    for (const duration of ['10m', '1s'] as const) {
      await ctx.extend(duration)
      const [row] = await bus.sql<{ ms: number }>(
        'select (extract(epoch from vt - holdfast.now()) * 1000)::float8 as ms from pgmq.q_extended__commands',
      )
      left.push(row?.ms ?? 0)
    }
  })
  await (await bus.hf.send(Do, null)).result()
  for (const ms of left) expect(ms).toBeGreaterThan(500_000)
})

test('C-06 extend refuses when the lease is lost', async () => {
  const Do = defineCommand('extend-lost', 'Do')
  let refused: unknown
  let calls = 0
  await bus.work(Do, async (_, ctx) => {
    calls += 1
    if (calls > 1) return
    await bus.sql('update pgmq."q_extend-lost__commands" set read_ct = read_ct + 1, vt = holdfast.now()')
    refused = await ctx.extend('1m').catch((error) => error)
  })
  await (await bus.hf.send(Do, null)).result()
  await waitFor('it was refused', () => refused)
  expect(refused).toMatchObject({ code: 'HF_LEASE_LOST' })
})

test.each([
  ['domain', (domain: string) => ({ domain })],
  ['definition', (domain: string) => ({ definition: `${domain}/Do` })],
  ['handler', () => ({ handler: 'Do' })],
])('K-18 a paused %s is not received, and resumes at once', async (what, subjectOf) => {
  const Do = defineCommand(`paused-${what}`, 'Do')
  const Probe = defineCommand(`probe-${what}`, 'Probe')
  const seen: unknown[] = []
  bus.hf.handle(Probe, () => 'probed')
  const subject = subjectOf(Do.domain)
  bus.hf.handle(Do, (data) => void seen.push(data))
  await bus.hf.pause(subject, by)
  await bus.hf.run({ domains: [Do.domain, Probe.domain], poll: '1h' })
  const { id } = await bus.hf.send(Do, 1)
  await (await bus.hf.send(Probe, null)).result()
  expect(seen).toEqual([])
  expect(await bus.hf.command(Do, id).get()).toMatchObject({ attempts: 0, paused: true })
  await bus.hf.resume(subject, by)
  await bus.hf.command(Do, id).result({ timeout: '60s' })
  expect(seen).toEqual([1])
})

test('C-05 a notified worker runs what is sent without waiting for its poll; without notify it polls', async () => {
  const Woken = defineCommand('woken', 'Do')
  const Polled = defineCommand('polled', 'Do')
  await bus.work(Woken, () => 'woken', { poll: '1h' })
  await bus.work(Polled, () => 'polled', { notify: false, poll: '50ms' })
  expect(await (await bus.hf.send(Woken, null)).result({ timeout: '60s' })).toBe('woken')
  expect(await (await bus.hf.send(Polled, null)).result({ timeout: '60s' })).toBe('polled')
})

test('C-05 a worker runs the domains that have handlers, and close drains it', async () => {
  const composed = await openTestBus({ connectionString: bus.connectionString })
  const One = defineCommand('one', 'Do')
  const Two = defineCommand('two', 'Do')
  composed.hf.handle(One, () => 1)
  composed.hf.handle(Two, () => 2)
  const worker = await composed.hf.run()
  expect(worker.domains).toEqual(['one', 'two'])
  expect(await (await composed.hf.send(Two, null)).result()).toBe(2)
  await composed.close()
  expect(worker.isRunning).toBe(false)
})

test('C-07 a command that was received and not begun is released: visible at once, its attempts unchanged', async () => {
  const gate = holdAt('after commands.receive')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: gate.faults })
  const Do = defineCommand('given-back', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const worker = await slow.work(Do, () => 'slow')
  await gate.reached
  const stopping = worker.stop()
  gate.release()
  await stopping
  expect(await bus.hf.command(Do, id).get()).toMatchObject({ status: 'PENDING', attempts: 0 })
  await bus.work(Do, (_, ctx) => ctx.attempt)
  expect(await bus.hf.command(Do, id).result()).toBe(1)
  await slow.close()
})

test('Q-03 two installations in one database do not affect each other', async () => {
  const { connectionString } = bus
  const [first, second] = [
    await holdfast({ connectionString, schema: 'pay_one' }),
    await holdfast({ connectionString, schema: "Odd 'name" }),
  ]
  const Do = defineCommand('installed', 'Do', { retry: { maxAttempts: 1 } })
  first.handle(Do, () => 'first')
  second.handle(Do, () => Promise.reject(new Error('second')))
  await first.run({ poll: '20ms' })
  await second.run({ poll: '20ms' })
  for (const hf of [first, second]) await hf.queues.create('answers')
  const ids = {
    first: (await first.send(Do, 1, { replyTo: 'answers' })).id,
    second: (await second.send(Do, 1, { replyTo: 'answers' })).id,
  }
  expect(await first.command(Do, ids.first).result()).toBe('first')
  await waitFor('the second failed', async () => (await second.trouble.count({ model: 'commands' })) === 1)
  expect(await first.trouble.count({ model: 'commands' })).toBe(0)
  await second.trouble.retry([ids.second], by)
  await waitFor('it failed again', async () => (await second.command(Do, ids.second).history()).length === 6)
  expect((await second.commands.list()).items).toHaveLength(1)
  await expect(first.command(Do, ids.second).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  expect(await first.queues.read('answers')).toMatchObject([{ message: { outcome: 'SUCCESS' } }])
  const batchId = await first.batches.create(Do, [{ data: 1 }, { data: 2 }])
  await waitFor('its batch closed', async () => (await first.batches.get(batchId)).status === 'COMPLETED')
  await Promise.all([first.close(), second.close()])
})

test('K-11 commands are sent and run through PgBouncer in transaction mode', async (context) => {
  const bouncer = await startPgBouncer(bus.connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  const pooled = await openTestBus({ connectionString: bouncer.connectionString })
  const Do = defineCommand('pooled', 'Do')
  await pooled.work(Do, (data, ctx) => ctx.transaction(async () => data))
  const ids = (await pooled.hf.sendMany(Do, items(50))).map(({ id }) => id)
  ids.push((await pooled.hf.send(Do, 50)).id)
  for (const [place, id] of ids.entries()) expect(await pooled.hf.command(Do, id).result()).toBe(place)
  await pooled.close()
  await bouncer.stop()
})

test('C-05 a worker of one domain is started by hand; a second start or stop does nothing, and a stopped worker stays stopped', async () => {
  const Do = defineCommand('by-hand', 'Do')
  bus.hf.handle(Do, () => 'done')
  const worker = bus.hf.worker('by-hand', { concurrency: 2 })
  expect(worker).toMatchObject({ domain: 'by-hand', domains: ['by-hand'], isRunning: false, inFlightCount: 0 })
  const { id } = await bus.hf.send(Do, null)
  await Promise.all([worker.start(), worker.start()])
  expect(worker.isRunning).toBe(true)
  expect(await bus.hf.command(Do, id).result()).toBe('done')
  expect(await Promise.all([worker.stop(), worker.stop()])).toEqual([{ abandoned: 0 }, { abandoned: 0 }])
  expect(worker.isRunning).toBe(false)
  await expect(worker.start()).rejects.toMatchObject({ code: 'HF_STOPPED' })
})

test('C-05 a worker that was never started can be stopped', async () => {
  const Do = defineCommand('never-started', 'Do')
  bus.hf.handle(Do, () => null)
  expect(await bus.hf.worker('never-started').stop()).toEqual({ abandoned: 0 })
})
