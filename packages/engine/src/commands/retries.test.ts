import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { type CommandOptions, defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '20ms' })
})
afterAll(() => bus.close())

const define = (domain: string, options: Omit<CommandOptions<never, never>, 'data' | 'result'> = {}) =>
  defineCommand(domain, 'Do', options)
const status = async (domain: string, id: string) => (await bus.hf.command({ domain, type: 'Do' }, id).get()).status
const ended = (domain: string, id: string, type = 'Do') =>
  waitFor('it has left the queue', async () => {
    const command = await bus.hf.command({ domain, type }, id).get()
    return ['PENDING', 'IN_PROGRESS'].includes(command.status) ? undefined : command
  })
const waiting = (domain: string) =>
  bus.sql<{ read_ct: number; ms: number }>(
    `select read_ct, (extract(epoch from vt - holdfast.now()) * 1000)::float8 as ms from pgmq."q_${domain}__commands"`,
  )

test('C-15 WK-5 a transient error is retried after the delay of the policy, and audited', async () => {
  const Do = define('transient')
  const attempts: number[] = []
  await bus.work(Do, (_, ctx) => {
    attempts.push(ctx.attempt)
    if (ctx.attempt === 1) throw new TransientError('busy', { code: 'BUSY' })
    return 'done'
  })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('the retry is scheduled', async () => (await bus.events(id)).includes('RETRY_SCHEDULED'))
  const [message] = await waiting('transient')
  expect(message?.read_ct).toBe(1)
  // The default policy begins with ten seconds; some milliseconds have passed since it was written.
  expect(message?.ms).toBeGreaterThan(5_000)
  expect(message?.ms).toBeLessThanOrEqual(10_000)
  expect(await bus.hf.command(Do, id).get()).toMatchObject({
    status: 'PENDING',
    attempts: 1,
    error: { kind: 'TRANSIENT', code: 'BUSY', message: 'busy' },
  })
  await bus.moveClock(10_000)
  expect(await bus.hf.command(Do, id).result()).toBe('done')
  expect(attempts).toEqual([1, 2])
  const { error } = await bus.hf.command(Do, id).get()
  const audit = await bus.hf.command(Do, id).history()
  expect(audit.map(({ event }) => event)).toEqual(['SENT', 'RECEIVED', 'RETRY_SCHEDULED', 'RECEIVED', 'COMPLETED'])
  expect(audit[2]?.detail).toMatchObject({ attempt: 1, error_kind: 'TRANSIENT', error_code: 'BUSY', delay_ms: 10_000 })
  expect(error).toBeNull()
})

test('C-09 the message is hidden exactly for the delay', async () => {
  const Do = define('exactly', { retry: ['7m'] })
  await bus.work(Do, () => {
    throw new TransientError('busy')
  })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('the retry is scheduled', async () => (await bus.events(id)).includes('RETRY_SCHEDULED'))
  const [row] = await bus.sql<{ exact: boolean }>(
    `select vt = at + interval '7 minutes' as exact
     from pgmq."q_exactly__commands", holdfast.audit where subject_id = $1 and event = 'RETRY_SCHEDULED'`,
    [id],
  )
  expect(row?.exact).toBe(true)
})

test('C-15 WK-7 used-up attempts move it to troubleshooting, and archive its message', async () => {
  const Do = define('used-up')
  let calls = 0
  await bus.work(
    Do,
    () => {
      calls += 1
      throw new TransientError('still busy', { code: 'BUSY' })
    },
    { retry: ['1ms'] },
  )
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('used-up', id)).toMatchObject({
    status: 'IN_TROUBLESHOOTING_QUEUE',
    attempts: 3,
    error: { kind: 'TRANSIENT', code: 'BUSY' },
  })
  expect(calls).toBe(3)
  expect((await bus.events(id)).slice(-3)).toEqual(['RETRY_SCHEDULED', 'RECEIVED', 'MOVED_TO_TSQ'])
  expect(await waiting('used-up')).toEqual([])
  const archived = await bus.sql('select message from pgmq."a_used-up__commands"')
  expect(archived).toMatchObject([{ message: { command_id: id } }])
})

test('C-15 WK-6 a permanent error moves it to troubleshooting at once', async () => {
  const Do = define('permanent')
  await bus.work(Do, () => {
    throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('permanent', id)).toMatchObject({ status: 'IN_TROUBLESHOOTING_QUEUE', attempts: 1 })
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'MOVED_TO_TSQ'])
  const archived = await bus.sql('select 1 from pgmq.a_permanent__commands')
  expect(archived).toHaveLength(1)
})

test('C-09 a business error fails it for good, without troubleshooting', async () => {
  const Do = define('business')
  await bus.work(Do, () => {
    throw new BusinessError('declined', { code: 'CARD_DECLINED' })
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('business', id)).toMatchObject({
    status: 'FAILED',
    error: { kind: 'BUSINESS', code: 'CARD_DECLINED', message: 'declined' },
  })
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'FAILED'])
  expect(await bus.hf.trouble.count({ model: 'commands', domain: 'business' })).toBe(0)
  expect(await waiting('business')).toEqual([])
})

test.each([
  ['an Error', new Error('boom'), 'boom'],
  ['a text', 'boom', 'boom'],
  ['nothing', undefined, 'undefined'],
])('C-09 an unknown %s is transient, with the code INTERNAL_ERROR', async (what, thrown, message) => {
  const domain = `unknown-${what.replaceAll(' ', '-').toLowerCase()}`
  const Do = define(domain, { retry: { maxAttempts: 2, delays: ['1ms'] } })
  await bus.work(Do, () => {
    // oxlint-disable-next-line typescript/only-throw-error -- what a handler throws may be anything
    throw thrown
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await ended(domain, id)).toMatchObject({
    attempts: 2,
    error: { kind: 'TRANSIENT', code: 'INTERNAL_ERROR', message: expect.stringContaining(message) },
  })
})

test("C-02 a command's maxAttempts beats its definition's, which beats the worker's", async () => {
  const seen: Record<string, number[]> = {}
  const remember = (key: string, ctx: { maxAttempts: number; isLastAttempt: boolean }) => {
    seen[key] = [...(seen[key] ?? []), ctx.maxAttempts, Number(ctx.isLastAttempt)]
    throw new TransientError('again')
  }
  const Defined = defineCommand('attempts', 'Defined', { retry: { maxAttempts: 2 } })
  const Plain = defineCommand('attempts', 'Plain')
  bus.hf.handle(Plain, (key, ctx) => remember(String(key), ctx))
  await bus.work(Defined, (key, ctx) => remember(String(key), ctx), { retry: { maxAttempts: 4, delays: ['1ms'] } })
  const { id: plain } = await bus.hf.send(Plain, 'worker')
  const { id: defined } = await bus.hf.send(Defined, 'definition')
  const { id: own } = await bus.hf.send(Defined, 'command', { retry: { maxAttempts: 1 } })
  await ended('attempts', plain, 'Plain')
  for (const id of [defined, own]) await ended('attempts', id, 'Defined')
  expect(seen).toEqual({
    worker: [4, 0, 4, 0, 4, 0, 4, 1],
    definition: [2, 0, 2, 1],
    command: [1, 1],
  })
})

test('C-05 the third delay is used where a command allows more attempts', async () => {
  const Do = define('third')
  await bus.work(Do, () => {
    throw new TransientError('busy')
  })
  const { id } = await bus.hf.send(Do, null, { retry: { maxAttempts: 6 } })
  for (const seconds of [10, 60, 300, 300, 300]) {
    await waitFor('the next retry is scheduled', async () => {
      const [row] = await waiting('third')
      return row !== undefined && row.ms > 0 && (await status('third', id)) === 'PENDING'
    })
    await bus.moveClock(seconds * 1_000)
  }
  const audit = await bus.hf.command(Do, (await ended('third', id)).id).history()
  const delays = audit.filter(({ event }) => event === 'RETRY_SCHEDULED').map(({ detail }) => Object(detail).delay_ms)
  expect(delays).toEqual([10_000, 60_000, 300_000, 300_000, 300_000])
})

test('C-09 the definition tells the kind of errors that do not say it themselves', async () => {
  const Do = define('classified', { classifyError: () => 'business' })
  await bus.work(Do, () => {
    throw Object.assign(new Error('no'), { code: 'NO' })
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('classified', id)).toMatchObject({ status: 'FAILED', error: { kind: 'BUSINESS', code: 'NO' } })
})

test('C-05 a handler that exceeds its time limit gets its signal, and fails with a transient TIMEOUT', async () => {
  const Do = define('slow', { timeout: '30ms', retry: { maxAttempts: 1 } })
  let reason: unknown
  await bus.work(
    Do,
    (_, ctx) =>
      new Promise((resolve) => {
        ctx.signal.addEventListener('abort', () => {
          reason = ctx.signal.reason
          resolve('too late')
        })
      }),
  )
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('slow', id)).toMatchObject({
    status: 'IN_TROUBLESHOOTING_QUEUE',
    result: null,
    error: { kind: 'TRANSIENT', code: 'TIMEOUT', message: expect.stringContaining('30 ms') },
  })
  expect(reason).toMatchObject({ code: 'TIMEOUT' })
})

test("C-05 the worker's handlerTimeout applies to definitions that have none", async () => {
  const Do = define('slow-worker', { retry: { maxAttempts: 1 } })
  await bus.work(Do, () => new Promise(() => undefined), { handlerTimeout: '20ms' })
  const { id } = await bus.hf.send(Do, null)
  expect(await ended('slow-worker', id)).toMatchObject({ error: { code: 'TIMEOUT' } })
})
