import { numbered, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/define.js'
import { newId } from '../kernel/ids/id.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'
import { StepFailed } from './step-failed.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('process-commands')
const bookings = defineCommand('bookings', 'Book', {
  data: z.object({ amount: z.number() }),
  result: z.object({ reference: z.string() }),
})

/** A process that has sent its command, and a way to hand the final reply in. */
async function sent(execute: (ctx: ProcessContext) => Promise<unknown>) {
  const Order = defineProcess(domain(), 'Order', {
    state: z.any(),
    execute: async (ctx: ProcessContext) => execute(ctx),
  })
  await bus.runProcesses(Order)
  const { id } = await bus.hf.start(Order, {})
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  const commands = await bus.sql<{ command_id: string }>(
    'select command_id from holdfast.command where correlation_id = $1',
    [id],
  )
  const reply = async (end: object) => {
    const data = { commandId: commands[0]?.command_id, ...end }
    await bus.sql(
      `insert into holdfast.process_inbox (id, type, process_ref, name, response_id, data, checked, created_at, due_at)
       values ($1, $2, $3, '@command', $4, $5, true, holdfast.now(), holdfast.now())`,
      [newId(), Order.name, id, commands[0]?.command_id, JSON.stringify(data)],
    )
  }
  return { id, commands, reply }
}

const book = (ctx: ProcessContext) => ctx.command('book', bookings, { amount: 5 })

test('P-05 a command is sent once, and its result is the result of the call', async () => {
  const { id, commands, reply } = await sent(async (ctx) => {
    const { reference } = await book(ctx)
    await ctx.sleep('replay it', '1h')
    return reference
  })
  expect(commands).toHaveLength(1)
  await reply({ outcome: 'SUCCESS', result: { reference: 'r1' } })
  await bus.wakeUp(id)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('r1')
  expect(await bus.sql('select 1 from holdfast.command where correlation_id = $1', [id])).toHaveLength(1)
  expect((await bus.history(id)).slice(0, 2)).toEqual(['COMMAND book STARTED', 'COMMAND book COMPLETED'])
})

test('P-05 a command that failed compensates, or is caught', async () => {
  const undone: unknown[] = []
  const failing = await sent(async (ctx) => {
    await ctx.step('reserve', () => 'r1', { compensate: (result) => undone.push(result) })
    await book(ctx)
  })
  await failing.reply({ outcome: 'FAILED', errorCode: 'DECLINED', errorMessage: 'no money' })
  expect(await bus.rests(failing.id, 'COMPENSATED')).toMatchObject({
    error_code: 'DECLINED',
    error_message: 'no money',
  })
  expect(undone).toEqual(['r1'])

  const caught = await sent((ctx) =>
    ctx
      .command('book', bookings, { amount: 5 }, { onFailure: 'throw' })
      .catch((error: unknown) => (error instanceof StepFailed ? error.code : 'another error')),
  )
  await caught.reply({ outcome: 'CANCELLED' })
  expect((await bus.rests(caught.id, 'COMPLETED')).result).toBe('COMMAND_CANCELLED')
})

test("K-19 a command that was sent and not received is cancelled before anything is undone; 'attempted' undoes it too", async () => {
  const undone: unknown[] = []
  const { id } = await sent(async (ctx) => {
    const options = { compensateIf: 'attempted', compensate: (result: unknown) => undone.push(result) } as const
    await ctx.command('book', bookings, { amount: 5 }, options)
  })
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect(undone).toEqual([undefined])
  expect((await bus.history(id)).slice(0, 3)).toEqual([
    'COMMAND book STARTED',
    'UNWIND CANCEL STARTED',
    'COMMAND book FAILED',
  ])
})

test('P-05 data that the command refuses is the failure of the call', async () => {
  const Order = defineProcess(domain(), 'Order', {
    state: z.any(),
    execute: async (ctx) => ctx.command('book', bookings, JSON.parse('{"amount":"x"}')),
  })
  const { id, status } = await (await bus.hf.start(Order, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  expect((await bus.process(id)).error_message).toContain('HF_INVALID_DATA')
})
