import { holdAt, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { createCodec } from '../kernel/codec/codec.js'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { defineProcess } from './define.js'
import { StepFailed } from './step-failed.js'

const by = { actor: 'ann', reason: 'a test' }
const counted: Record<string, number> = {}
const metrics: Metrics = {
  count: (name, { model }, times = 1) => {
    counted[`${model} ${name}`] = (counted[`${model} ${name}`] ?? 0) + times
  },
  observe: () => undefined,
  gauge: () => undefined,
}

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ metrics })
  for (const [command, handler] of handlers) bus.hf.handle(command, handler)
  bus.hf.register(Booking)
  bus.hf.register(Careful)
  bus.hf.register(Hasty)
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => bus.close())

const Book = defineCommand('replied', 'Book', {
  data: z.object({ mode: z.string() }),
  result: z.object({ reference: z.string(), at: z.date() }),
})
const calls: string[] = []
const handlers = [
  [
    Book,
    ({ mode }: { mode: string }, { commandId }: { commandId: string }) => {
      calls.push(commandId)
      if (mode === 'refused') throw new BusinessError('no more risk today', { code: 'OVER_LIMIT' })
      if (mode === 'broken') throw new PermanentError('no route', { code: 'NO_ROUTE' })
      return { reference: mode, at: new Date('2030-01-02T03:04:05Z') }
    },
  ],
] as const

const undone: string[] = []
const Booking = defineProcess('replied', 'Booking', {
  state: z.object({ mode: z.string() }),
  async execute(ctx, { mode }) {
    const compensate = () => void undone.push(mode)
    await ctx.command('prepare', Book, { mode: 'first' }, { compensate })
    const booked = await ctx.command('book', Book, { mode })
    expectTypeOf(booked).toEqualTypeOf<{ reference: string; at: Date }>()
    return `${booked.reference} ${booked.at.getUTCFullYear()}`
  },
})
const Careful = defineProcess('replied', 'Careful', {
  state: z.object({ mode: z.string() }),
  async execute(ctx, { mode }) {
    try {
      await ctx.command('book', Book, { mode }, { onFailure: 'throw' })
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error
      return error.code
    }
    return 'booked'
  },
})
const Slow = defineCommand('replied_elsewhere', 'Slow')
const Hasty = defineProcess('replied', 'Hasty', {
  state: z.object({ onTimeout: z.enum(['tsq', 'compensate', 'fail']) }),
  async execute(ctx, { onTimeout }) {
    await ctx.command('slow', Slow, null, { timeout: '5m', onTimeout })
  },
})

const commandOf = (id: string, status = 'PENDING') =>
  waitFor(`${id} has a command that is ${status}`, async () =>
    (await bus.hf.commands.list({ correlationId: id })).items.find((command) => command.status === status),
  )

test('P-05 ctx.command sends a command and returns what its handler returned, a Date as a Date', async () => {
  const { id } = await bus.hf.start(Booking, { mode: 'plain' })
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ result: 'plain 2030' })
  const commands = (await bus.hf.commands.list({ correlationId: id })).items
  expect(commands.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED'])
  const history = await bus.sql(
    `select kind, name, status from holdfast.process_history where process_id = $1 order by seq`,
    [id],
  )
  expect(history.at(-1)).toEqual({ kind: 'COMMAND', name: 'book', status: 'COMPLETED' })
})

test('P-05 a command that is refused is a business failure: the process compensates', async () => {
  const { id } = await bus.hf.start(Booking, { mode: 'refused' })
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'OVER_LIMIT' })
  expect(undone).toContain('refused')
})

test("P-05 P-13 with onFailure 'throw' the refusal is an error that code can catch", async () => {
  const { id } = await bus.hf.start(Careful, { mode: 'refused' })
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ result: 'OVER_LIMIT' })
})

test('P-05 a cancelled command is a failure too', async () => {
  const { id } = await bus.hf.start(Hasty, { onTimeout: 'tsq' })
  const { id: commandId } = await commandOf(id)
  await bus.hf.command(Slow, commandId).cancel(by)
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'COMMAND_CANCELLED' })
})

test('P-05 a command in troubleshooting keeps the process waiting until an operator has repaired it', async () => {
  const { id } = await bus.hf.start(Booking, { mode: 'broken' })
  const ignored = counted['process-replies replies_ignored'] ?? 0
  const { id: commandId } = await commandOf(id, 'IN_TROUBLESHOOTING_QUEUE')
  // The provisional reply has been read, and has changed nothing.
  await waitFor('the reply queue is empty', async () => {
    return (await bus.hf.queues.metrics('replied__process_replies')).length === 0
  })
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_ASYNC', waiting_for: 'book' })
  await bus.hf.command(Book, commandId).complete(by, { reference: 'by hand', at: new Date(0) })
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ result: 'by hand 1970' })
  expect(counted['process-replies replies_ignored'] ?? 0).toBe(ignored + 1)
})

test.each([
  ['tsq', 'WAITING_FOR_TSQ'],
  ['compensate', 'COMPENSATED'],
  ['fail', 'FAILED'],
] as const)('P-05 a command without a reply in time: onTimeout %s leads to %s', async (onTimeout, status) => {
  const { id } = await bus.hf.start(Hasty, { onTimeout })
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.moveClock(300_001)
  expect(await bus.rests(id, status)).toMatchObject({ error_code: 'WAIT_TIMEOUT' })
})

test('P-05 a command that has not begun is cancelled with its process; its reply, before or after the end, changes nothing', async () => {
  const { id } = await bus.hf.start(Hasty, { onTimeout: 'fail' })
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.moveClock(300_001)
  await bus.rests(id, 'FAILED')
  await commandOf(id, 'CANCELLED')
  await waitFor('its reply is recorded', async () => {
    const [reply] = await bus.sql<{ data: unknown }>(
      'select data from holdfast.process_response where process_id = $1',
      [id],
    )
    return reply
  })
  expect(await bus.process(id)).toMatchObject({ status: 'FAILED' })
  await waitFor('the reply is gone', async () => {
    return (await bus.hf.queues.metrics('replied__process_replies')).length === 0
  })
})

test('P-05 a reply delivered twice is recorded once', async () => {
  const { id } = await bus.hf.start(Hasty, { onTimeout: 'tsq' })
  const { id: commandId } = await commandOf(id)
  const reply = { command_id: commandId, correlation_id: id, outcome: 'SUCCESS', final: true, result: null }
  await bus.hf.queues.sendBatch('replied__process_replies', [reply, reply, reply])
  await bus.rests(id, 'COMPLETED')
  await bus.hf.queues.send('replied__process_replies', reply)
  await waitFor('the queue is empty', async () => {
    return (await bus.hf.queues.metrics('replied__process_replies')).length === 0
  })
  const responses = await bus.sql('select name from holdfast.process_response where process_id = $1', [id])
  expect(responses).toEqual([{ name: '@command' }])
})

test('M-03 a reply to an unknown process is removed and counted; a message that is not a reply is archived and counted', async () => {
  const before = { ...counted }
  const unknown = { correlation_id: '00000000-0000-4000-8000-000000000000', outcome: 'SUCCESS', final: true }
  const malformed = [
    'text',
    { outcome: 'SUCCESS' },
    { correlation_id: 'no id', outcome: 'SUCCESS' },
    { ...unknown, outcome: 'MAYBE' },
    { ...unknown, final: 'yes' },
  ]
  await bus.hf.queues.sendBatch('replied__process_replies', [unknown, ...malformed])
  await waitFor('the queue is empty', async () => {
    return (await bus.hf.queues.metrics('replied__process_replies')).length === 0
  })
  const counts = (name: string) => (counted[name] ?? 0) - (before[name] ?? 0)
  // They are counted after they were removed.
  const both = () => [counts('process-replies replies_unknown'), counts('process-replies messages_not_ours')]
  await waitFor('both are counted', () => both().every((count) => count > 0))
  expect(both()).toEqual([1, malformed.length])
  const archived = await bus.sql('select message from pgmq.a_replied__process_replies order by msg_id')
  expect(archived.map(({ message }) => message)).toEqual(malformed)
})

test('P-05 K-10 results pass through a codec that encrypts', async () => {
  const plain = createCodec()
  const secret = {
    encode(value: unknown) {
      const { json, notes } = plain.encode(value)
      return {
        json: JSON.stringify({ secret: Buffer.from(JSON.stringify({ json, notes })).toString('base64') }),
        notes: null,
      }
    },
    decode({ json }: { json: unknown }) {
      const { secret: hidden } = z.object({ secret: z.string() }).parse(json)
      const opened = JSON.parse(Buffer.from(hidden, 'base64').toString())
      return plain.decode({ json: JSON.parse(opened.json), notes: opened.notes })
    },
  }
  const hidden = await openTestBus({ codec: secret })
  const Hidden = defineCommand('hidden', 'Hidden', { result: z.object({ at: z.date() }) })
  const Hiding = defineProcess('hidden', 'Hiding', {
    state: z.object({}),
    execute: async (ctx) => (await ctx.command('hide', Hidden, null)).at.getTime(),
  })
  hidden.hf.register(Hiding)
  await hidden.work(Hidden, () => ({ at: new Date(5) }))
  const { id } = await hidden.hf.start(Hiding, {})
  const row = await hidden.rests(id, 'COMPLETED')
  expect(secret.decode({ json: row.result })).toBe(5)
  await hidden.close()
})

test('P-05 a process killed between sending its command and its record sends it once', async () => {
  const hold = holdAt('after commands.flush-sends')
  const dying = await openTestBus({ connectionString: bus.connectionString, faults: hold.faults })
  dying.hf.register(Booking)
  // The starter sends the command and never comes back to write that it did.
  const starting = dying.hf.start(Booking, { mode: 'left alone' })
  await hold.reached
  const [left] = await bus.sql<{ id: string }>(
    `select id from holdfast.process_detail where state ->> 'mode' = 'left alone'`,
  )
  const id = left?.id ?? ''
  // Before the clock moves: a command under way then would be received twice.
  await waitFor('the command has ended', async () => {
    const commands = (await bus.hf.commands.list({ correlationId: id })).items
    return commands.length > 0 && commands.every(({ status }) => status === 'COMPLETED')
  })
  await bus.moveClock(31_000)
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ result: 'left alone 2030' })
  const sent = (await bus.hf.commands.list({ correlationId: id })).items.map(({ id }) => id)
  expect(sent).toHaveLength(2)
  for (const commandId of sent) expect(calls.filter((called) => called === commandId)).toHaveLength(1)
  hold.release()
  await starting
  await dying.close()
})
