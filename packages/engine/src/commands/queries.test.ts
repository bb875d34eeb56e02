import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
type Filter = Parameters<TestBus['hf']['commands']['list']>[0]
const found = async (filter: Filter) => (await bus.hf.commands.list(filter)).items.map(({ id }) => id)

test('C-14 one command with its audit trail in order', async () => {
  const Do = defineCommand('one', 'Do', { retry: ['1ms'] })
  await bus.work(Do, (_, ctx) => {
    if (ctx.attempt === 1) throw new Error('again')
    return { ok: true }
  })
  const { id } = await bus.hf.send(Do, { a: 1 })
  await bus.hf.command(Do, id).result()
  const command = await bus.hf.command(Do, id).get()
  expect(command).toMatchObject({ id, domain: 'one', type: 'Do', status: 'COMPLETED', attempts: 2 })
  expect(command).toMatchObject({ data: { a: 1 }, result: { ok: true }, error: null, dueAt: null })
  const history = await bus.hf.command(Do, id).history()
  expect(history.map(({ event }) => event)).toEqual(['SENT', 'RECEIVED', 'RETRY_SCHEDULED', 'RECEIVED', 'COMPLETED'])
  expect(command.createdAt).toBeInstanceOf(Date)
  expect(command.updatedAt.getTime()).toBeGreaterThanOrEqual(command.createdAt.getTime())
})

test('C-14 commands are listed by status, also by IN_PROGRESS while they run', async () => {
  const Do = defineCommand('statuses', 'Do', { retry: { maxAttempts: 1 } })
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  const { id: pending } = await bus.hf.send(Do, null, { delay: '1d' })
  const { id: cancelled } = await bus.hf.send(Do, null, { delay: '1d' })
  await bus.hf.command(Do, cancelled).cancel(by)
  await bus.work(Do, (what) => {
    if (what === 'fail') throw new BusinessError('no')
    if (what === 'trouble') throw new Error('no')
    return what === 'run' ? gate : null
  })
  const ids: Record<string, string> = { PENDING: pending, CANCELLED: cancelled }
  ids.COMPLETED = (await bus.hf.send(Do, 'complete')).id
  ids.FAILED = (await bus.hf.send(Do, 'fail')).id
  ids.IN_TROUBLESHOOTING_QUEUE = (await bus.hf.send(Do, 'trouble')).id
  ids.IN_PROGRESS = (await bus.hf.send(Do, 'run')).id
  for (const status of [
    'COMPLETED',
    'FAILED',
    'IN_TROUBLESHOOTING_QUEUE',
    'IN_PROGRESS',
    'PENDING',
    'CANCELLED',
  ] as const) {
    await waitFor(`one is ${status}`, async () => (await found({ domain: 'statuses', status })).length === 1)
    expect(await found({ domain: 'statuses', status })).toEqual([ids[status]])
  }
  release()
})

test('C-14 commands are listed by domain, type, correlation id, batch and time, newest first', async () => {
  const One = defineCommand('found', 'One')
  const Two = defineCommand('found', 'Two')
  const correlationId = randomUUID()
  const batchId = await bus.hf.batches.open('found')
  const { id: first } = await bus.hf.send(One, 1)
  await bus.moveClock(60_000)
  const since = (await bus.sql<{ now: Date }>('select holdfast.now() as now'))[0]?.now ?? new Date(0)
  const { id: second } = await bus.hf.send(Two, 2, { correlationId })
  await bus.moveClock(60_000)
  const until = (await bus.sql<{ now: Date }>('select holdfast.now() as now'))[0]?.now ?? new Date(0)
  const { id: third } = await bus.hf.send(One, 3, { batch: batchId })
  expect(await found({ domain: 'found' })).toEqual([third, second, first])
  expect(await found({ domain: 'found', type: 'One' })).toEqual([third, first])
  expect(await found({ correlationId })).toEqual([second])
  expect(await found({ batch: batchId })).toEqual([third])
  expect(await found({ domain: 'found', since })).toEqual([third, second])
  expect(await found({ domain: 'found', since, until })).toEqual([second])
  expect(await found({ domain: 'found', until: since })).toEqual([first])
  expect(await found({ domain: 'found', limit: 2 })).toEqual([third, second])
  expect(await found({ type: 'One', domain: 'nowhere' })).toEqual([])
})

test('C-14 all domains are listed together', async () => {
  const correlationId = randomUUID()
  const { id: here } = await bus.hf.send(defineCommand('all-one', 'Do'), 1, { correlationId })
  const { id: there } = await bus.hf.send(defineCommand('all-two', 'Do'), 1, { correlationId })
  expect((await found({ correlationId })).toSorted()).toEqual([here, there].toSorted())
})

test.each([
  ['an unknown status', { status: 'DONE' }, 'HF_INVALID_OPTION', 'IN_PROGRESS'],
  ['a batch that is no id', { batch: '7' }, 'HF_INVALID_ID', 'batch'],
  ['a time that is none', { since: 'yesterday' }, 'HF_INVALID_OPTION', 'since'],
  ['a limit of nothing', { limit: 0 }, 'HF_INVALID_OPTION', 'limit'],
  ['an unknown filter', { corelationId: randomUUID() }, 'HF_UNKNOWN_OPTION', 'did you mean `correlationId`?'],
])('C-14 a list with %s is refused', async (_, filter, code, said) => {
  await expect(bus.hf.commands.list(filter as never)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(said),
  })
})

test('C-14 the result of a command is awaited: success, failure, timeout', async () => {
  const Do = defineCommand('awaited', 'Do')
  const { id: slow } = await bus.hf.send(Do, 'slow', { delay: '1d' })
  await bus.work(Do, (what) => {
    if (what === 'fail') throw new BusinessError('the card was declined', { code: 'DECLINED' })
    return { said: what }
  })
  expect(await (await bus.hf.send(Do, 'yes')).result()).toEqual({ said: 'yes' })
  await expect((await bus.hf.send(Do, 'fail')).result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    message: expect.stringContaining('DECLINED: the card was declined'),
  })
  await expect(bus.hf.command(Do, slow).result({ timeout: '30ms' })).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    status: 504,
  })
  await expect(bus.hf.command(Do, randomUUID()).result()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await expect(bus.hf.command(Do, slow).result({ timeot: 5 } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
  })
})

test('C-14 a command that has not started can be cancelled: it never runs', async () => {
  const Do = defineCommand('cancelled', 'Do')
  const { id } = await bus.hf.send(Do, 'never')
  await bus.hf.command(Do, id).cancel(by)
  const seen: unknown[] = []
  await bus.work(Do, (data) => void seen.push(data))
  await (await bus.hf.send(Do, 'other')).result()
  expect(seen).toEqual(['other'])
  const { status } = await bus.hf.command(Do, id).get()
  const audit = await bus.hf.command(Do, id).history()
  expect(status).toBe('CANCELLED')
  expect(audit.at(-1)).toMatchObject({ event: 'OPERATOR_CANCEL', actor: 'ann', reason: 'test' })
  await expect(bus.hf.command(Do, id).cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
})

test('C-14 a command that has started, waits for its retry or has ended cannot be cancelled', async () => {
  const Do = defineCommand('begun', 'Do', { retry: ['1d'] })
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  await bus.work(Do, (what) => {
    if (what === 'retry') throw new Error('later')
    return gate
  })
  const [running, retrying] = [(await bus.hf.send(Do, 'run')).id, (await bus.hf.send(Do, 'retry')).id]
  await waitFor('one runs', async () => (await bus.hf.command(Do, running).get()).status === 'IN_PROGRESS')
  await waitFor('one waits', async () => (await bus.events(retrying)).includes('RETRY_SCHEDULED'))
  for (const id of [running, retrying]) {
    await expect(bus.hf.command(Do, id).cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  }
  release()
  await bus.hf.command(Do, running).result()
  await expect(bus.hf.command(Do, running).cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(bus.hf.command(Do, randomUUID()).cancel(by)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await expect(bus.hf.command({ domain: 'x', type: 'Do' }, running).cancel(by)).rejects.toMatchObject({
    code: 'HF_NOT_FOUND',
  })
})

test('C-14 cancelling races with receiving: either it ran or it was cancelled, never both', async () => {
  const Do = defineCommand('race', 'Do')
  const ran = new Set<string>()
  await bus.work(Do, (_, ctx) => void ran.add(ctx.commandId), { concurrency: 20 })
  const ids = (
    await bus.hf.sendMany(
      Do,
      Array.from({ length: 100 }, () => ({ data: null })),
    )
  ).map(({ id }) => id)
  const cancelled = new Set<string>()
  await Promise.all(
    ids.map(async (id) => {
      const answer = await bus.hf
        .command(Do, id)
        .cancel(by)
        .catch((error) => error)
      if (answer === undefined) cancelled.add(id)
      // Busy: its row stayed locked by the worker that receives it. Nothing was changed either.
      else expect(['HF_WRONG_STATUS', 'HF_BUSY']).toContain(answer.code)
    }),
  )
  await waitFor('all have ended', () => ran.size + cancelled.size >= 100)
  expect([...ran].filter((id) => cancelled.has(id))).toEqual([])
})
