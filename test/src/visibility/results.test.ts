import { gate, numbered, openTestBus, startFaultProxy, type TestBus, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, defineWorkflow, holdfast, PermanentError } from 'holdfast'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { recording } from './recording.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('awaited')
const by = { actor: 'ann', reason: 'a test' }
const broken = () => {
  throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
}

test('K-22 the result of a command that needs a person is an error at once, and can be awaited again after a retry', async () => {
  const Pay = defineCommand(domain(), 'Pay')
  let mended = false
  const worker = await bus.work(Pay, () => (mended ? 'paid' : broken()))
  const { id } = await bus.hf.send(Pay, {})
  await expect(bus.hf.command(Pay, id).result()).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: {
      model: 'commands',
      type: 'Pay',
      id,
      status: 'IN_TROUBLESHOOTING_QUEUE',
      code: 'NO_ACCOUNT',
      message: 'no such account',
    },
  })
  mended = true
  await bus.hf.command(Pay, id).retry(by)
  expect(await bus.hf.command(Pay, id).result()).toBe('paid')
  await worker.stop()
})

test('K-22 the result of a process that needs a person is an error at once that names the step', async () => {
  const Payment = defineProcess(domain(), 'Payment', {
    state: z.object({}),
    execute: (ctx) => ctx.step('book', broken),
  })
  const worker = await bus.runProcesses(Payment)
  const { id } = await bus.hf.start(Payment, {}, { key: 'PAY-1' })
  await expect(bus.hf.process(Payment, 'PAY-1').result()).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: { model: 'processes', type: 'Payment', id, code: 'PERMANENT_FAILURE', step: 'book' },
    message: expect.stringContaining('no such account'),
  })
  await worker.stop()
})

test('K-22 the result of a process whose command needs a person is an error at once that names the command, and can be awaited again', async () => {
  const name = domain()
  const Pay = defineCommand(`${name}_bank`, 'Pay', { result: z.string() })
  let mended = false
  const handling = await bus.work(Pay, () => (mended ? 'paid' : broken()))
  const Payment = defineProcess(name, 'Payment', {
    state: z.object({}),
    execute: (ctx) => ctx.command('pay', Pay, {}),
  })
  const worker = await bus.runProcesses(Payment)
  const handle = await bus.hf.start(Payment, {})
  const error: unknown = await handle.result().catch((thrown: unknown) => thrown)
  const [troubled] = (await bus.hf.commands.list({ correlationId: handle.id })).items
  expect(error).toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: { model: 'processes', id: handle.id, step: 'pay', code: 'NO_ACCOUNT' },
    message: expect.stringContaining(`its command ${name}_bank/Pay ${troubled?.id} needs a person: no such account`),
  })
  mended = true
  await bus.hf.command(Pay, troubled?.id ?? '').retry(by)
  expect(await handle.result()).toBe('paid')
  await worker.stop()
  await handling.stop()
})

test('K-22 the result of a process whose child needs a person is an error at once that names the child', async () => {
  const name = domain()
  const Child = defineProcess(name, 'Child', { state: z.object({}), execute: (ctx) => ctx.step('book', broken) })
  const Parent = defineProcess(name, 'Parent', {
    state: z.object({}),
    execute: (ctx) => ctx.child('settle', Child, {}),
  })
  bus.hf.register(Child)
  const worker = await bus.runProcesses(Parent)
  const { id } = await bus.hf.start(Parent, {})
  await expect(bus.hf.process(Parent, id).result()).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: { model: 'processes', type: 'Parent', id, step: 'settle', code: 'PERMANENT_FAILURE' },
    message: expect.stringMatching(new RegExp(`its child ${name}/Child .* needs a person: .*no such account`)),
  })
  await worker.stop()
})

test('K-22 a command that a process has sent and does not wait for does not end the wait for its result', async () => {
  const name = domain()
  const Pay = defineCommand(`${name}_bank`, 'Pay')
  const handling = await bus.work(Pay, broken)
  const Payment = defineProcess(name, 'Payment', {
    state: z.object({}),
    responses: { done: { data: z.number() } },
    async execute(ctx) {
      await ctx.step('tell', async () => void (await bus.hf.send(Pay, {}, { correlationId: ctx.id })))
      return ctx.event('end', 'done')
    },
  })
  const worker = await bus.runProcesses(Payment)
  const payment = await bus.hf.start(Payment, {})
  await waitFor('the command needs a person', async () => {
    return (await bus.hf.trouble.count({ model: 'commands', domain: `${name}_bank` })) === 1
  })
  await expect(payment.result({ timeout: '20ms' })).rejects.toMatchObject({ code: 'HF_RESULT_TIMEOUT' })
  await payment.respond('done', 7)
  expect(await payment.result()).toBe(7)
  await worker.stop()
  await handling.stop()
})

test('K-22 the result of a workflow instance with a dead letter is an error at once that names the step', async () => {
  const name = domain()
  bus.hf.handle(name, broken)
  const Flow = defineWorkflow('test', name, { dlq: true }).step('book', name).build()
  const worker = await bus.hf.run({ domains: [], workflows: true, poll: '20ms' })
  await expect(bus.hf.start(Flow, {}).then((it) => it.result())).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: {
      model: 'workflows',
      domain: 'test',
      type: name,
      code: 'NO_ACCOUNT',
      step: 'book',
      message: 'no such account',
    },
  })
  await worker.stop()
})

test('K-22 when the time is over the error says the status, what it waits for and that no worker has it', async () => {
  const name = domain()
  const Pay = defineCommand(name, 'Pay')
  const { id: commandId } = await bus.hf.send(Pay, {})
  await expect(bus.hf.command(Pay, commandId).result({ timeout: '20ms' })).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    details: {
      status: 'PENDING',
      why: expect.stringContaining(`no live worker has ${name}/Pay: register its handler`),
    },
  })
  const Payment = defineProcess(name, 'Payment', {
    state: z.object({}),
    responses: { confirmed: { data: z.object({}), apply: () => undefined } },
    execute: (ctx) => ctx.event('l1', 'confirmed'),
  })
  const { id } = await bus.hf.start(Payment, {})
  const late = (why: string) => ({ code: 'HF_RESULT_TIMEOUT', details: { why: expect.stringContaining(why) } })
  await expect(bus.hf.process(Payment, id).result({ timeout: '20ms' })).rejects.toMatchObject(late('It waits for l1'))
  await expect(bus.hf.process(Payment, id).result({ timeout: '20ms' })).rejects.toMatchObject(
    late(`no live worker has ${name}/Payment: register it with hf.register`),
  )
  const worker = await bus.runProcesses(Payment)
  const alive = bus.hf.process(Payment, id).result({ timeout: '20ms' })
  await expect(alive).rejects.toMatchObject({ details: { why: expect.not.stringContaining('live worker') } })
  await worker.stop()
  const Flow = defineWorkflow('test', `${name}_flow`).step('book', `${name}_nobody`).build()
  await expect(bus.hf.start(Flow, {}).then((it) => it.result({ timeout: '20ms' }))).rejects.toMatchObject(
    late(`Step \`book\` waits: no live worker has the handler ${name}_nobody`),
  )
})

test('K-22 U-11 when the time is over the error says that live workers have only older versions', async () => {
  const name = domain()
  const version = (of: number) =>
    defineProcess(name, 'Payment', {
      state: z.object({}),
      version: of,
      responses: { confirmed: { data: z.object({}), apply: () => undefined } },
      execute: (ctx) => ctx.event('l1', 'confirmed'),
    })
  const old = await openTestBus({ connectionString: bus.connectionString })
  const worker = await old.runProcesses(version(1))
  const { id } = await bus.hf.start(version(2), {})
  await expect(bus.hf.process(version(2), id).result({ timeout: '20ms' })).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    details: {
      status: 'WAITING_FOR_ASYNC',
      why: expect.stringContaining('live workers have only version 1 or older: start one of version 2'),
    },
  })
  await worker.stop()
  await old.close()
})

test('K-22 a thousand waiters of one process are few statements', async () => {
  const counted = new Map<string, number>()
  const watched = await openTestBus({
    connectionString: bus.connectionString,
    faults: (point: string) => {
      if (point.startsWith('after ')) counted.set(point.slice(6), (counted.get(point.slice(6)) ?? 0) + 1)
    },
  })
  const Payment = defineProcess(domain(), 'Payment', {
    state: z.object({}),
    responses: { done: { data: z.number(), apply: () => undefined } },
    execute: (ctx) => ctx.event('end', 'done'),
  })
  const worker = await bus.runProcesses(Payment)
  const { id } = await bus.hf.start(Payment, {})
  const began = performance.now()
  const waiting = Promise.all(Array.from({ length: 1_000 }, () => watched.hf.process(Payment, id).result()))
  await waitFor('it was looked for', () => (counted.get('processes.find-standings') ?? 0) > 2)
  await bus.hf.process(Payment, id).respond('done', 7)
  expect(new Set(await waiting)).toEqual(new Set([7]))
  const polls = (performance.now() - began) / 10 + 2
  expect(counted.get('processes.find-standings')).toBeLessThanOrEqual(polls)
  await worker.stop()
  await watched.close()
})

test('K-22 ends are notified while a caller waits', async () => {
  const Pay = defineCommand(domain(), 'Pay')
  const worker = await bus.work(Pay, () => 'paid')
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  const [names] = await bus.sql<{ channel: string; bucket: string }>(
    `select holdfast.wake_channel() as channel, holdfast.wake_bucket_of('results:commands')::text as bucket`,
  )
  let heard = 0
  client.on('notification', ({ payload }) => {
    if (payload === names?.bucket) heard += 1
  })
  await client.query(`listen "${names?.channel ?? ''}"`)
  await bus.sql('delete from holdfast.result_wait')
  await (await bus.hf.send(Pay, {})).result()
  const before = heard
  await bus.sql(`select holdfast.await_results('commands')`)
  await waitFor('an end is notified', async () => {
    await (await bus.hf.send(Pay, {})).result()
    return heard > before
  })
  await client.end()
  await worker.stop()
})

test('K-22 waiting survives a restart of the database', async () => {
  const proxy = await startFaultProxy(bus.connectionString)
  const hf = await holdfast({ connectionString: proxy.connectionString, logger: false })
  const Pay = defineCommand(domain(), 'Pay')
  const held = gate()
  const worker = await bus.work(Pay, () => held.passed)
  const { id } = await bus.hf.send(Pay, {})
  const waiting = hf.command(Pay, id).result()
  proxy.refuse(true)
  proxy.cut()
  held.open()
  await waitFor('it has ended', async () => (await bus.hf.command(Pay, id).get()).status === 'COMPLETED')
  proxy.refuse(false)
  await expect(waiting).resolves.toBeNull()
  await hf.close()
  await proxy.close()
  await worker.stop()
})

test('K-22 work that no worker has the code for is reported shortly after it was created', async () => {
  const told = recording()
  const alone = await openTestBus({ connectionString: bus.connectionString, logger: told.logger })
  const name = domain()
  const Payment = defineProcess(name, 'Payment', { state: z.object({}), execute: async () => undefined })
  const Flow = defineWorkflow('test', `${name}_flow`).step('book', `${name}_nobody`).build()
  await alone.hf.send(defineCommand(name, 'Pay'), {})
  await alone.hf.startMany(Payment, [{ input: {} }, { input: {} }])
  await alone.hf.start(Flow, {})
  const warned = () => told.lines.filter(({ event }) => event === 'no_live_worker')
  await waitFor('all three are told of', () => warned().length === 3)
  expect(
    warned()
      .map(({ model, type }) => `${String(model)} ${String(type)}`)
      .toSorted(),
  ).toEqual([`commands ${name}/Pay`, `processes ${name}/Payment`, `workflows ${name}_nobody`])
  await alone.close()
})
