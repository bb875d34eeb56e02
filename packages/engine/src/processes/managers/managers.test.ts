import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { BusinessError, PermanentError } from '../../kernel/failure/failure-errors.js'
import { defineManager } from './define.js'
import { stepCommand } from './step-command.js'
import { resultOf } from './step-reply.js'

const by = { actor: 'ann', reason: 'a test' }
const handled: { type: string; order: string; commandId: string; correlationId: string | null }[] = []

const Data = z.object({ order: z.string(), fails: z.string().optional() })
const Reserve = defineCommand('orders', 'Reserve', { data: Data, result: z.object({ until: z.date() }) })
const Charge = defineCommand('orders', 'Charge', { data: Data, result: z.object({ receipt: z.string() }) })
const Ship = defineCommand('orders', 'Ship', { data: Data })
const Release = defineCommand('orders', 'Release', { data: Data })
const Refund = defineCommand('orders', 'Refund', { data: Data })

const State = z.object({
  order: z.string(),
  fails: z.string().optional(),
  until: z.date().optional(),
  receipt: z.string().optional(),
  seen: z.array(z.string()).default([]),
})

const Order = defineManager('orders', 'Order', {
  state: State,
  steps: ['reserve', 'charge', 'ship'],
  firstStep: () => 'reserve',
  command(step, { order, fails }) {
    const data = fails?.startsWith(step) ? { order, fails } : { order }
    return stepCommand({ reserve: Reserve, charge: Charge, ship: Ship }[step], data)
  },
  onReply(state, step, reply) {
    const seen = [...state.seen, `${step} ${reply.outcome}`]
    if (reply.outcome !== 'SUCCESS') return { ...state, seen }
    if (step === 'reserve') return { ...state, seen, until: resultOf(Reserve, reply).until }
    if (step === 'charge') return { ...state, seen, receipt: resultOf(Charge, reply).receipt }
    return { ...state, seen }
  },
  nextStep: (step) => (({ reserve: 'charge', charge: 'ship', ship: null }) as const)[step],
  compensation(step, { order, fails }) {
    const data = fails?.startsWith(`undo ${step}`) ? { order, fails } : { order }
    if (step === 'reserve') return stepCommand(Release, data)
    return step === 'charge' ? stepCommand(Refund, data) : undefined
  },
})

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  const { hf } = bus
  const note = (
    type: string,
    { order, fails }: z.infer<typeof Data>,
    ctx: { commandId: string; correlationId: string | null },
  ) => {
    handled.push({ type, order, commandId: ctx.commandId, correlationId: ctx.correlationId })
    if (fails?.endsWith('refused')) throw new BusinessError('no', { code: 'REFUSED' })
    if (fails?.endsWith('broken')) throw new PermanentError('no route', { code: 'NO_ROUTE' })
  }
  hf.handle(Reserve, (data, ctx) => {
    note('Reserve', data, ctx)
    return { until: new Date('2030-01-01T00:00:00Z') }
  })
  hf.handle(Charge, (data, ctx) => {
    note('Charge', data, ctx)
    return { receipt: `R-${data.order}` }
  })
  for (const command of [Ship, Release, Refund]) hf.handle(command, (data, ctx) => note(command.type, data, ctx))
  hf.register(Order)
  await hf.run({ poll: '20ms', concurrency: 20 })
})
afterAll(() => bus.close())

const commandsOf = (order: string) => handled.filter((command) => command.order === order).map(({ type }) => type)
const troubled = async (id: string) =>
  (await bus.sql('select id from holdfast.process_trouble where id = $1', [id])).length
const idle = () =>
  waitFor('the reply queue is empty', async () => (await bus.hf.queues.metrics('orders__process_replies')).length === 0)

test('M-01 a process goes from step to step by the replies to its commands', async () => {
  const { id, status } = await (await bus.hf.start(Order, { order: 'plain' })).get()
  expect(status).toBe('WAITING_FOR_REPLY')
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({
    model: 'STEP_BASED',
    waiting_for: null,
    state: {
      order: 'plain',
      until: '2030-01-01T00:00:00.000Z',
      receipt: 'R-plain',
      seen: ['reserve SUCCESS', 'charge SUCCESS', 'ship SUCCESS'],
    },
  })
  expect(commandsOf('plain')).toEqual(['Reserve', 'Charge', 'Ship'])
  expect(handled.filter(({ order }) => order === 'plain').every(({ correlationId }) => correlationId === id)).toBe(true)
  expect(await bus.history(id)).toEqual([
    'COMMAND reserve STARTED',
    'COMMAND reserve COMPLETED',
    'COMMAND charge STARTED',
    'COMMAND charge COMPLETED',
    'COMMAND ship STARTED',
    'COMMAND ship COMPLETED',
  ])
})

test('M-02 the start is one transaction: the caller’s own brings process and command, or neither', async () => {
  const pending = await bus.sql('select 1 from holdfast.command')
  await bus.db.transaction(async (tx) => {
    const { id, created } = await bus.hf.start(Order, { order: 'committed' }, { transaction: tx, key: 'TX-1' })
    expect(created).toBe(true)
    await expect(bus.process(id)).rejects.toThrow('there is no process')
  })
  await expect(
    bus.db.transaction(async (tx) => {
      await bus.hf.start(Order, { order: 'rolled back' }, { transaction: tx })
      throw new Error('the caller changed its mind')
    }),
  ).rejects.toThrow('changed its mind')
  await waitFor('the committed one is done', () => commandsOf('committed').length === 3)
  expect(commandsOf('rolled back')).toEqual([])
  expect((await bus.sql('select 1 from holdfast.command')).length).toBe(pending.length + 3)
})

test('M-02 started twice by its key or id is started once', async () => {
  const first = await bus.hf.start(Order, { order: 'keyed' }, { key: 'KEY-1', attributes: { region: 'north' } })
  const again = await Promise.all([
    bus.hf.start(Order, { order: 'keyed' }, { key: 'KEY-1' }),
    bus.hf.start(Order, { order: 'keyed' }, { id: first.id }),
  ])
  expect(again).toMatchObject([
    { id: first.id, created: false },
    { id: first.id, created: false },
  ])
  await bus.rests(first.id, 'COMPLETED')
  expect(commandsOf('keyed')).toEqual(['Reserve', 'Charge', 'Ship'])
})

test('M-03 a hundred processes at once: each follows its own steps', async () => {
  const started = await Promise.all(Array.from({ length: 100 }, (_, n) => bus.hf.start(Order, { order: `many-${n}` })))
  await waitFor('all are done', async () => {
    const [row] = await bus.sql<{ count: number }>(
      `select count(*)::int from holdfast.process where id = any ($1) and status = 'COMPLETED'`,
      [started.map(({ id }) => id)],
    )
    return row?.count === 100
  })
  for (let n = 0; n < 100; n += 1) expect(commandsOf(`many-${n}`)).toEqual(['Reserve', 'Charge', 'Ship'])
})

test('M-03 M-04 a business failure undoes what was done, in reverse order, one at a time', async () => {
  const { id } = await bus.hf.start(Order, { order: 'refused', fails: 'ship refused' })
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({
    error_code: 'REFUSED',
    state: { seen: ['reserve SUCCESS', 'charge SUCCESS', 'ship FAILED'] },
  })
  expect(commandsOf('refused')).toEqual(['Reserve', 'Charge', 'Ship', 'Refund', 'Release'])
  expect((await bus.history(id)).slice(5)).toEqual([
    'COMMAND ship FAILED',
    'UNWIND FAILURE STARTED',
    'COMPENSATION charge STARTED',
    'COMPENSATION charge COMPLETED',
    'COMPENSATION reserve STARTED',
    'COMPENSATION reserve COMPLETED',
  ])
})

test('M-03 a failure before anything was done ends compensated at once', async () => {
  const { id } = await bus.hf.start(Order, { order: 'at once', fails: 'reserve refused' })
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'REFUSED' })
  expect(commandsOf('at once')).toEqual(['Reserve'])
})

test('M-03 a command in troubleshooting: the process waits for the operator until the final reply', async () => {
  const { id } = await bus.hf.start(Order, { order: 'tsq', fails: 'charge broken' })
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({
    error_code: 'COMMAND_IN_TROUBLESHOOTING',
    waiting_for: 'charge',
  })
  expect(await troubled(id)).toBe(1)
  const [command] = (await bus.hf.trouble.list({ model: 'commands', domain: 'orders', type: 'Charge' })).items
  await bus.hf.command(Charge, command?.id ?? '').complete(by, { receipt: 'by hand' })
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ error_code: null, state: { receipt: 'by hand' } })
  expect(await troubled(id)).toBe(0)
})

test('M-03 a command that an operator cancels is a failure: compensation', async () => {
  const { id } = await bus.hf.start(Order, { order: 'cancelled', fails: 'charge broken' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  const [command] = (await bus.hf.trouble.list({ model: 'commands', domain: 'orders', type: 'Charge' })).items
  await bus.hf.command(Charge, command?.id ?? '').cancel(by)
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({
    error_code: 'COMMAND_CANCELLED',
    state: { seen: ['reserve SUCCESS', 'charge CANCELLED'] },
  })
  expect(commandsOf('cancelled')).toEqual(['Reserve', 'Charge', 'Release'])
  expect(await troubled(id)).toBe(0)
})

test('M-03 a reply delivered twice, even together, is applied once', async () => {
  const { id } = await bus.hf.start(Order, { order: 'twice' })
  await bus.rests(id, 'COMPLETED')
  const [charge] = handled.filter(({ type, order }) => type === 'Charge' && order === 'twice')
  const reply = {
    command_id: charge?.commandId,
    correlation_id: id,
    outcome: 'SUCCESS',
    final: true,
    result: { receipt: 'X' },
  }
  const before = await bus.process(id)
  await bus.hf.queues.sendBatch('orders__process_replies', [reply, reply, { ...reply, outcome: 'FAILED' }])
  await idle()
  expect(await bus.process(id)).toEqual(before)
})

const until = (id: string, status: string) =>
  waitFor(status, async () => (await bus.hf.process(Order, id).get()).status === status)

const startThroughSql = async (input: object, options: object = {}) => {
  const [row] = await bus.sql<{ id: string }>(`select holdfast.start('orders', 'Order', $1, $2) as id`, [
    input,
    options,
  ])
  return row?.id ?? ''
}

test('M-02 K-15 a manager that is started through SQL checks its state, sends its first command and goes on', async () => {
  const id = await startThroughSql({ order: 'SQL-1' }, { key: 'SQL-1', deadline: '1h' })
  await bus.hf.process(Order, id).result()
  expect(commandsOf('SQL-1')).toEqual(['Reserve', 'Charge', 'Ship'])
  expect(await bus.hf.process(Order, 'SQL-1').get()).toMatchObject({
    id,
    status: 'COMPLETED',
    model: 'STEP_BASED',
    state: { receipt: 'R-SQL-1', seen: ['reserve SUCCESS', 'charge SUCCESS', 'ship SUCCESS'] },
    deadline: expect.any(Date),
  })
})

test('M-02 K-15 a manager that is started through SQL with a state that does not fit needs an operator, who may cancel it', async () => {
  const id = await startThroughSql({ order: 7 })
  await until(id, 'WAITING_FOR_TSQ')
  expect(await troubled(id)).toBe(1)
  await bus.hf.process(Order, id).retry(by)
  await until(id, 'WAITING_FOR_TSQ')
  await bus.hf.process(Order, id).cancel(by)
  await until(id, 'CANCELLED')
})

test('M-02 K-15 a worker that died after it had checked the state and before the first step: another one begins', async () => {
  const definition = { definition: 'orders/Order' }
  await bus.hf.pause(definition, by)
  const id = await startThroughSql({ order: 'SQL-2', seen: [] })
  await bus.sql('update holdfast.process_detail set state_checked = true where id = $1', [id])
  await bus.hf.resume(definition, by)
  await bus.hf.process(Order, id).result()
  expect(commandsOf('SQL-2')).toEqual(['Reserve', 'Charge', 'Ship'])
})

test('M-02 a manager that is started through SQL and cancelled before its start sends nothing', async () => {
  const id = await startThroughSql({ order: 'SQL-3' }, { delay: '1d' })
  await bus.hf.process(Order, id).cancel(by)
  await until(id, 'CANCELLED')
  expect(commandsOf('SQL-3')).toEqual([])
})

test('M-02 U-02 startMany starts managers with their first commands, all or none', async () => {
  const orders = ['MANY-1', 'MANY-2']
  const many = orders.map((order) => ({ input: { order }, key: order }))
  const started = await bus.hf.startMany(Order, many)
  expect(started).toEqual([
    { id: expect.any(String), created: true },
    { id: expect.any(String), created: true },
  ])
  for (const { id } of started) await bus.hf.process(Order, id).result()
  for (const order of orders) expect(commandsOf(order)).toEqual(['Reserve', 'Charge', 'Ship'])
  expect((await bus.hf.startMany(Order, many)).map(({ created }) => created)).toEqual([false, false])
  const broken = [{ input: { order: 'MANY-3' } }, { input: { order: 4 as never } }]
  await expect(bus.hf.startMany(Order, broken)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  expect(await bus.hf.processes.count({ key: 'MANY-3' })).toBe(0)
})
