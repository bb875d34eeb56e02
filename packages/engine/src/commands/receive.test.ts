import { randomUUID } from 'node:crypto'
import { countStatements, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { noReports, type Reports } from '../kernel/reports/reports.js'
import type { CommandContext } from './context.js'
import { defineCommand } from './define.js'
import { commandChores } from './sweep.js'

let bus: TestBus
const notOurs: Record<string, number> = {}
beforeAll(async () => {
  bus = await openTestBus({
    metrics: {
      count: (name, labels, by = 1) => {
        const domain = String(labels.domain)
        if (name === 'messages_not_ours') notOurs[domain] = (notOurs[domain] ?? 0) + by
      },
      gauge: () => undefined,
      observe: () => undefined,
    },
  })
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
const pgmqSend = (domain: string, message: unknown, headers: unknown = null) =>
  bus.sql('select pgmq.send($1, $2::jsonb, $3::jsonb, 0)', [
    `${domain}__commands`,
    JSON.stringify(message),
    JSON.stringify(headers),
  ])
const queueLength = async (domain: string, kind: 'q' | 'a' = 'q') =>
  (await bus.sql(`select 1 from pgmq."${kind}_${domain}__commands"`)).length
const empty = (domain: string) => waitFor('the queue is empty', async () => (await queueLength(domain)) === 0)
const sweep = () => commandChores(noReports).command_sweep?.(bus.db)

test('C-15 WK-1 WK-3 WK-4 a worker reads its own queue, calls the handler with command and context, and deletes the message', async () => {
  const Do = defineCommand('wk', 'Do', { data: z.object({ amount: z.number() }) })
  const Elsewhere = defineCommand('wk-other', 'Do', { data: z.object({ amount: z.number() }) })
  let seen: { data: unknown; ctx: CommandContext } | undefined
  await bus.work(Do, (data, ctx) => {
    seen = { data, ctx }
    return 'done'
  })
  await bus.hf.send(Elsewhere, { amount: 2 })
  const correlationId = randomUUID()
  const { id } = await bus.hf.send(Do, { amount: 1 }, { correlationId })
  const [message] = await bus.sql<{ msg_id: string }>('select msg_id from pgmq.q_wk__commands')
  await bus.hf.command(Do, id).result()
  expect(seen?.data).toEqual({ amount: 1 })
  expect(seen?.ctx).toMatchObject({
    domain: 'wk',
    type: 'Do',
    commandId: id,
    correlationId,
    batchId: null,
    attempt: 1,
    maxAttempts: 3,
    isLastAttempt: false,
    idempotencyKey: id,
  })
  if (message) expect(seen?.ctx.messageId).toBe(String(message.msg_id))
  expect(seen?.ctx.signal.aborted).toBe(false)
  expect(await queueLength('wk')).toBe(0)
  expect(await queueLength('wk', 'a')).toBe(0)
  expect(await queueLength('wk-other')).toBe(1)
})

test('C-07 receiving raises the attempts and shows IN_PROGRESS while the handler runs, with an audit that names the worker', async () => {
  const Do = defineCommand('progress', 'Do')
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  await bus.work(Do, () => gate, { name: 'worker seven' })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('it is in progress', async () => (await bus.hf.command(Do, id).get()).status === 'IN_PROGRESS')
  const { attempts, dueAt } = await bus.hf.command(Do, id).get()
  const audit = await bus.hf.command(Do, id).history()
  expect(attempts).toBe(1)
  expect(audit[1]).toMatchObject({ event: 'RECEIVED', detail: { attempt: 1, worker: 'worker seven' } })
  expect(dueAt?.getTime()).toBeGreaterThan(audit[1]?.at.getTime() ?? Number.POSITIVE_INFINITY)
  release()
  await bus.hf.command(Do, id).result()
  expect((await bus.hf.command(Do, id).get()).dueAt).toBeNull()
})

test('C-07 a batch of messages is received in one round trip', async () => {
  const counter = countStatements()
  const counted = await openTestBus({ connectionString: bus.connectionString, faults: counter.faults })
  const Do = defineCommand('one-trip', 'Do')
  await bus.hf.sendMany(
    Do,
    Array.from({ length: 100 }, (_, data) => ({ data })),
  )
  let running = 0
  await counted.work(
    Do,
    async () => {
      running += 1
      await waitFor('all have begun', () => running === 100)
    },
    { concurrency: 100 },
  )
  await waitFor('all have begun', () => running === 100)
  expect(counter.counts.get('commands.receive')).toBeLessThan(5)
  await empty('one-trip')
  await counted.close()
})

test("C-07 a foreign client's message is adopted: it gets a row, an ADOPTED audit, and runs", async () => {
  const Do = defineCommand('foreign', 'Do', { data: z.object({ amount: z.number() }) })
  await bus.work(Do, ({ amount }) => amount + 1)
  await bus.hf.queues.create('foreign__replies')
  const [command_id, correlation_id] = [randomUUID(), randomUUID()]
  const reply_to = 'foreign__replies'
  await pgmqSend('foreign', {
    domain: 'foreign',
    command_type: 'Do',
    command_id,
    correlation_id,
    data: { amount: 1 },
    reply_to,
  })
  await empty('foreign')
  expect(await bus.hf.command(Do, command_id).get()).toMatchObject({
    status: 'COMPLETED',
    result: 2,
    correlationId: correlation_id,
  })
  expect(await bus.events(command_id)).toEqual(['ADOPTED', 'RECEIVED', 'COMPLETED'])
  expect(await bus.hf.queues.read(reply_to)).toMatchObject([
    { message: { command_id, correlation_id, outcome: 'SUCCESS' } },
  ])
})

test("a foreign client's bad payload goes to troubleshooting with the sender's message and its raw data, and the queue goes on", async () => {
  const Do = defineCommand('bad-foreign', 'Do', { data: z.object({ amount: z.number() }) })
  const refused = await bus.hf.send(Do, { amount: 'x' as unknown as number }).catch((error) => error)
  await bus.work(Do, ({ amount }) => amount)
  const ids = [randomUUID(), randomUUID(), randomUUID(), randomUUID()] as const
  await pgmqSend('bad-foreign', { command_type: 'Do', command_id: ids[0], data: { amount: 'x' } })
  // Whatever its headers say, what a foreign client sends is looked at.
  await pgmqSend('bad-foreign', { command_type: 'Do', command_id: ids[1], data: { amount: 'x' } }, { version: 1 })
  await pgmqSend(
    'bad-foreign',
    { command_type: 'Do', command_id: ids[2], data: { amount: 'x' } },
    { notes: { '/amount': 'no such type' } },
  )
  await pgmqSend('bad-foreign', { command_type: 'Do', command_id: ids[3] })
  expect(await (await bus.hf.send(Do, { amount: 3 })).result()).toBe(3)
  await waitFor(
    'four are in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'bad-foreign' })) === 4,
  )
  const bySender = (refused as Error).message.replace(/^.*?: /, '')
  const listed = (await bus.hf.trouble.list({ model: 'commands', domain: 'bad-foreign' })).items
  expect(listed.map(({ code }) => code)).toEqual(Array(4).fill('INVALID_DATA'))
  expect(listed.find(({ id }) => id === ids[0])?.message).toContain(bySender)
  for (const id of [ids[0], ids[2]]) {
    expect(await bus.hf.command(Do, id ?? '').get()).toMatchObject({ data: { amount: 'x' } })
  }
  expect((await bus.hf.commands.list({ domain: 'bad-foreign' })).items).toHaveLength(5)
})

test.each([
  ['without command_id', { command_type: 'Do', data: 1 }],
  ['with a command_id that is none', { command_type: 'Do', command_id: 'PAY-1' }],
  ['without command_type', { command_id: randomUUID() }],
  ['that is a text', 'hello'],
  ['that is a list', [1, 2]],
  ['that is a number', 7],
])('C-07 a message %s is archived and counted, and the queue goes on', async (what, message) => {
  const domain = what.replaceAll(/[ _]/g, '-')
  const Do = defineCommand(domain, 'Do')
  await bus.work(Do, () => 'done')
  await pgmqSend(domain, message)
  await (await bus.hf.send(Do, null)).result()
  await empty(domain)
  expect(await queueLength(domain, 'a')).toBe(1)
  expect(notOurs[domain]).toBe(1)
})

test('C-07 the stray message of a command that has ended or is in troubleshooting is removed and not run', async () => {
  const Do = defineCommand('stray', 'Do')
  const calls: unknown[] = []
  await bus.work(Do, (data) => {
    calls.push(data)
    if (data === 'bad') throw new PermanentError('no')
  })
  const [good, bad] = [(await bus.hf.send(Do, 'good')).id, (await bus.hf.send(Do, 'bad')).id]
  await bus.hf.command(Do, good).result()
  await waitFor(
    'one is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'stray' })) === 1,
  )
  for (const command_id of [good, bad]) await pgmqSend('stray', { command_type: 'Do', command_id, data: 'again' })
  await empty('stray')
  expect(new Set(calls)).toEqual(new Set(['bad', 'good']))
  expect(calls).toHaveLength(2)
  expect((await bus.hf.command(Do, good).get()).status).toBe('COMPLETED')
  expect((await bus.hf.command(Do, bad).get()).status).toBe('IN_TROUBLESHOOTING_QUEUE')
})

test('C-07 a cancelled command is not turned into a completed one by a message that comes again', async () => {
  const Do = defineCommand('stray-cancelled', 'Do')
  const { id } = await bus.hf.send(Do, null)
  await bus.hf.command(Do, id).cancel(by)
  await pgmqSend('stray-cancelled', { command_type: 'Do', command_id: id, data: null })
  await bus.work(Do, () => 'done')
  await empty('stray-cancelled')
  expect(await bus.hf.command(Do, id).get()).toMatchObject({ status: 'CANCELLED', result: null })
})

test('C-07 one command in two messages runs once', async () => {
  const Do = defineCommand('doubled', 'Do')
  const command_id = randomUUID()
  await bus.hf.send(Do, 'other')
  for (const data of [1, 2, 3]) await pgmqSend('doubled', { command_type: 'Do', command_id, data })
  const calls: unknown[] = []
  await bus.work(Do, (data) => void calls.push(data), { concurrency: 10 })
  await empty('doubled')
  expect(calls.length).toBe(2)
  expect(await bus.events(command_id)).toEqual(['ADOPTED', 'RECEIVED', 'COMPLETED'])
})

test('C-09 a type without a handler here is left for a worker that has one, its attempts unchanged', async () => {
  const Mine = defineCommand('shared', 'Mine')
  const Theirs = defineCommand('shared', 'Theirs')
  const other = await openTestBus({ connectionString: bus.connectionString })
  await bus.work(Mine, () => 'mine')
  const theirs = (
    await bus.hf.sendMany(
      Theirs,
      Array.from({ length: 50 }, () => ({ data: null })),
    )
  ).map(({ id }) => id)
  const { id: mine } = await bus.hf.send(Mine, null)
  expect(await bus.hf.command(Mine, mine).result()).toBe('mine')
  expect(await bus.hf.command(Theirs, theirs[0] ?? '').get()).toMatchObject({ status: 'PENDING', attempts: 0 })
  await other.work(Theirs, (_, ctx) => ctx.attempt, { concurrency: 50 })
  const attempts = await Promise.all(theirs.map((id) => bus.hf.command(Theirs, id).result()))
  expect(new Set(attempts)).toEqual(new Set([1]))
  await other.close()
})

test('C-09 unhandled for more than an hour goes to troubleshooting, with a provisional reply; handled types never do', async () => {
  const Nobody = defineCommand('sweep', 'Nobody')
  const Stopped = defineCommand('sweep', 'Stopped')
  await bus.hf.queues.create('sweep__replies')
  const { id } = await bus.hf.send(Nobody, { raw: 1 }, { replyTo: 'sweep__replies' })
  const foreign = randomUUID()
  await pgmqSend('sweep', { command_type: 'Nobody', command_id: foreign, data: { raw: 2 } })
  const { id: kept } = await bus.hf.send(Stopped, null)
  await bus.moveClock(3_500_000)
  await sweep()
  expect((await bus.hf.command(Nobody, id).get()).status).toBe('PENDING')
  // Noted before the clock moves: the chore of another test's worker may sweep in the same moment.
  await bus.sql(
    `insert into holdfast.worker_definition (model, name, version, worker, seen_at)
     values ('commands', 'sweep/Stopped', 0, 'w', holdfast.now() + interval '10 minutes')`,
  )
  await bus.moveClock(200_000)
  // That worker may hold the rows still, which our sweep then leaves to it.
  await waitFor('the sweep is over', async () => {
    await bus.steady()
    await sweep()
    return (await bus.hf.command(Nobody, id).get()).status !== 'PENDING'
  })
  expect(await bus.hf.command(Nobody, id).get()).toMatchObject({
    status: 'IN_TROUBLESHOOTING_QUEUE',
    attempts: 0,
    error: { kind: 'PERMANENT', code: 'NO_HANDLER', message: 'no worker has a handler for Nobody' },
  })
  expect((await bus.hf.command(Stopped, kept).get()).status).toBe('PENDING')
  const listed = (await bus.hf.trouble.list({ model: 'commands', domain: 'sweep' })).items
  expect(listed.map((record) => record.id).toSorted()).toEqual([id, foreign].toSorted())
  expect(await bus.sql('select message from pgmq.q_sweep__replies')).toMatchObject([
    { message: { command_id: id, outcome: 'FAILED', final: false, error_type: 'PERMANENT', error_code: 'NO_HANDLER' } },
  ])
  await bus.hf.command(Nobody, id).retry(by)
  await bus.work(Nobody, (data) => data)
  expect(await bus.hf.command(Nobody, id).result()).toEqual({ raw: 1 })
})

test('K-21 what the sweep sends to troubleshooting is reported, each once', async () => {
  const alone = await openTestBus()
  const Nobody = defineCommand('sweep', 'Nobody')
  const ids = (await alone.hf.sendMany(Nobody, [{ data: 1 }, { data: 2 }])).map(({ id }) => id)
  await alone.moveClock(3_700_000)
  await alone.steady()
  const reported: string[] = []
  const needsPerson: Reports['needsPerson'] = ({ model, domain, type, id }, { code }) =>
    void reported.push(`${model} ${domain} ${type} ${id} ${code}`)
  const chores = commandChores({ ...noReports, needsPerson })
  await chores.command_sweep?.(alone.db)
  await chores.command_sweep?.(alone.db)
  expect(reported.toSorted()).toEqual(ids.map((id) => `commands sweep Nobody ${id} NO_HANDLER`).toSorted())
  await alone.close()
})

test('C-09 a command that waited for its worker during a long outage is executed, not swept', async () => {
  const Do = defineCommand('outage', 'Do')
  const ids = (
    await bus.hf.sendMany(
      Do,
      Array.from({ length: 20 }, () => ({ data: null })),
    )
  ).map(({ id }) => id)
  await bus.moveClock(48 * 3_600_000)
  await bus.sql(`update holdfast.chore set due_at = holdfast.now()`)
  await bus.work(Do, () => 'late')
  for (const id of ids) expect(await bus.hf.command(Do, id).result()).toBe('late')
})

test('C-09 after hours without any worker nothing is swept before every live worker has had time for a heartbeat', async () => {
  const Do = defineCommand('standstill', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const noteWorker = () =>
    bus.sql(`select holdfast.note_worker('w', '[{ "model": "commands", "name": "standstill/Do", "version": 0 }]')`)
  await noteWorker()
  await bus.steady()
  // The database was away, the machine was suspended, or the clock jumped: nobody could beat.
  await bus.moveClock(2 * 3_600_000)
  const status = async () => {
    await sweep()
    return (await bus.hf.command(Do, id).get()).status
  }
  expect(await status()).toBe('PENDING')
  // Another worker comes first.
  await bus.sql('select holdfast.note_beat()')
  expect(await status()).toBe('PENDING')
  await bus.moveClock(90_000)
  await bus.sql('select holdfast.note_beat()')
  expect(await status()).toBe('PENDING')
  // Now the worker that has the handler; it lives, and nothing is swept later either.
  await noteWorker()
  await bus.moveClock(90_000)
  await bus.sql('select holdfast.note_beat()')
  expect(await status()).toBe('PENDING')
})

test('C-16 a message whose attempts all began and never ended is not executed again', async () => {
  const Do = defineCommand('crashing', 'Do', { retry: { maxAttempts: 2 } })
  const { id } = await bus.hf.send(Do, null)
  // Two workers received it and died while it ran alone: their leases are over.
  await bus.sql('update pgmq.q_crashing__commands set read_ct = 2')
  await bus.sql(`insert into holdfast.lost_claim (source, id, epoch, state, lost_alone, at)
    select 'commands:crashing__commands', msg_id::text, 2, 'alone', 1, holdfast.now() from pgmq.q_crashing__commands`)
  let calls = 0
  await bus.work(Do, () => {
    calls += 1
  })
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'crashing' })) === 1,
  )
  expect(calls).toBe(0)
  expect((await bus.hf.command(Do, id).get()).error).toMatchObject({
    code: 'ATTEMPTS_EXHAUSTED_BY_CRASH',
    kind: 'PERMANENT',
  })
})

test('K-26 receives that were lost beside other work use up no attempt', async () => {
  const Do = defineCommand('company', 'Do', { retry: { maxAttempts: 2 } })
  const { id } = await bus.hf.send(Do, null)
  await bus.sql('update pgmq.q_company__commands set read_ct = 2')
  const attempts: number[] = []
  await bus.work(Do, (_data, { attempt }) => void attempts.push(attempt))
  await bus.hf.command(Do, id).result()
  expect(attempts).toEqual([1])
  expect((await bus.hf.command(Do, id).get()).attempts).toBe(1)
})
