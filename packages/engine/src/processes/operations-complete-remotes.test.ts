// Completing a process by hand says that its work is done: nothing that it sent or started may begin after that.

import { gate, waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { defineManager } from './managers/define.js'
import { stepCommand } from './managers/step-command.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, processes, work, get, until } = await openOperations()
afterAll(() => bus.close())

const paid: string[] = []
const gates = new Map<string, ReturnType<typeof gate>>()
const Pay = defineCommand('withdrawn_bank', 'Pay', { data: z.object({ of: z.string(), mode: z.string() }) })
/** No worker has a handler for it. */
const Later = defineCommand('withdrawn_later', 'Later')
await bus.work(
  Pay,
  async ({ of, mode }) => {
    paid.push(of)
    if (mode === 'refused') throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
    if (mode === 'lost') throw new Error('read ECONNRESET')
    if (mode === 'slow') {
      const opened = gate()
      gates.set(of, opened)
      await opened.passed
    }
  },
  { concurrency: 10 },
)
const Payment = defineProcess('withdrawn', 'Payment', {
  state: z.object({ of: z.string(), mode: z.string() }),
  async execute(ctx, { of, mode }) {
    if (mode === 'later') await ctx.command('later', Later, null)
    else await ctx.command('pay', Pay, { of, mode }, { retry: { maxAttempts: 1 } })
  },
})
const Managed = defineManager('withdrawn', 'Managed', {
  state: z.object({ of: z.string(), mode: z.string() }),
  firstStep: () => 'pay',
  command: (_step, { of, mode }) => stepCommand(Pay, { of, mode }, { retry: { maxAttempts: 1 } }),
  onReply: (state) => state,
  nextStep: () => null,
})
bus.hf.register(Payment)
bus.hf.register(Managed)
await work('withdrawn')

const commandOf = async (id: string) =>
  waitFor('its command is there', async () => (await bus.hf.commands.list({ correlationId: id })).items[0])
const troubled = (id: string) =>
  waitFor('its command needs a person', async () => (await commandOf(id)).status === 'IN_TROUBLESHOOTING_QUEUE')
const statusOf = async (id: string) => (await commandOf(id)).status

/** Everything that an operator could do by accident afterwards, for work of which nothing may be left. */
async function nothingBegins(of: string, calls: number): Promise<void> {
  await bus.hf.resume({ domain: Pay.domain }, by)
  await bus.hf.trouble.retry({ domain: 'withdrawn_bank' }, by, { notDone: true })
  const after = await bus.hf.send(Pay, { of: `after ${of}`, mode: '' })
  await after.result()
  expect(paid.filter((one) => one === of)).toHaveLength(calls)
}

interface Input {
  readonly of: string
  readonly mode: string
}

const kinds = [
  ['process', Payment, (input: Input) => bus.hf.start(Payment, input)],
  ['manager', Managed, (input: Input) => bus.hf.start(Managed, input)],
] as const

test.each(kinds)(
  'P-16 K-19 complete of a %s withdraws its command that no worker has received',
  async (kind, of, start) => {
    await bus.hf.pause({ domain: Pay.domain }, by)
    const { id } = await start({ of: `queued ${kind}`, mode: '' })
    await commandOf(id)
    await bus.hf.process(of, id).complete(by, undefined)
    expect(await get(of, id)).toMatchObject({ status: 'COMPLETED' })
    expect(await statusOf(id)).toBe('CANCELLED')
    await nothingBegins(`queued ${kind}`, 0)
    expect(await get(of, id)).toMatchObject({ status: 'COMPLETED', error: null })
  },
)

test.each(
  kinds.flatMap(([kind, of, start]) => (['refused', 'lost'] as const).map((mode) => [kind, mode, of, start] as const)),
)('P-16 K-19 complete of a %s withdraws its command that needs a person (%s)', async (kind, mode, of, start) => {
  const { id } = await start({ of: `${mode} ${kind}`, mode })
  await troubled(id)
  await bus.hf.process(of, id).complete(by, undefined)
  expect(await get(of, id)).toMatchObject({ status: 'COMPLETED' })
  expect(await statusOf(id)).toBe('CANCELLED')
  await nothingBegins(`${mode} ${kind}`, 1)
})

test.each(kinds)(
  'P-16 K-19 complete of a %s is refused while its command is under way, and changes nothing',
  async (kind, of, start) => {
    const name = `slow ${kind}`
    const { id } = await start({ of: name, mode: 'slow' })
    const opened = await waitFor('its command is under way', async () => gates.get(name))
    const command = await commandOf(id)
    const refusal = bus.hf.process(of, id).complete(by, undefined)
    await expect(refusal).rejects.toMatchObject({ code: 'HF_CANNOT_COMPLETE', status: 409 })
    await expect(refusal).rejects.toThrow(`its command withdrawn_bank/Pay ${command.id} is under way`)
    opened.open()
    await until(of, id, 'COMPLETED')
    expect(paid.filter((one) => one === name)).toHaveLength(1)
  },
)

test('P-16 K-19 a refused complete leaves the other commands queued', async () => {
  const Two = defineProcess('withdrawn', 'Two', {
    state: empty,
    async execute(ctx) {
      const later = ctx.command('later', Later, null)
      await ctx.command('slow', Pay, { of: 'slow of two', mode: 'slow' })
      await later
    },
  })
  bus.hf.register(Two)
  await work('withdrawn')
  const { id } = await bus.hf.start(Two, {})
  const opened = await waitFor('one is under way', async () => gates.get('slow of two'))
  await expect(bus.hf.process(Two, id).complete(by)).rejects.toMatchObject({ code: 'HF_CANNOT_COMPLETE' })
  const statuses = async () =>
    (await bus.hf.commands.list({ correlationId: id })).items.map(({ status }) => status).toSorted()
  expect(await statuses()).not.toContain('CANCELLED')
  opened.open()
  await waitFor('only the other one is left', async () => {
    const { status, waitingFor } = await get(Two, id)
    return status === 'WAITING_FOR_ASYNC' && waitingFor === 'later'
  })
  await bus.hf.process(Two, id).complete(by)
  expect(await statuses()).toEqual(['CANCELLED', 'COMPLETED'])
})

test('P-16 K-19 complete withdraws a command that was sent and is not on record', async () => {
  const { id } = await bus.hf.start(Payment, { of: 'unrecorded', mode: 'later' })
  await commandOf(id)
  await until(Payment, id, 'WAITING_FOR_ASYNC')
  // As if the worker had died between sending it and recording that.
  await bus.sql("delete from holdfast.process_history where process_id = $1 and kind = 'COMMAND'", [id])
  await bus.hf.process(Payment, id).complete(by)
  expect(await statusOf(id)).toBe('CANCELLED')
})

test('P-16 complete leaves a command alone that only has the id of the process as its correlation id', async () => {
  const { id } = await bus.hf.start(Payment, { of: 'own', mode: 'later' })
  await commandOf(id)
  const other = await bus.hf.send(Pay, { of: 'other', mode: '' }, { correlationId: id, delay: '1h' })
  await bus.hf.process(Payment, id).complete(by)
  expect(await other.get()).toMatchObject({ status: 'PENDING' })
  await other.cancel(by)
})

test('P-16 trouble.complete withdraws what the process sent beside the step that failed', async () => {
  const Beside = defineProcess('withdrawn', 'Beside', {
    state: empty,
    async execute(ctx) {
      await Promise.all([
        ctx.command('later', Later, null),
        ctx.step('book', () => {
          throw new PermanentError('no book')
        }),
      ])
    },
  })
  bus.hf.register(Beside)
  await work('withdrawn')
  const { id } = await bus.hf.start(Beside, {})
  await until(Beside, id, 'WAITING_FOR_TSQ')
  expect(await bus.hf.trouble.complete([id], by)).toMatchObject([{ id, outcome: 'done' }])
  expect(await statusOf(id)).toBe('CANCELLED')
})

test('P-16 P-05 complete cancels the children, wherever they stand, and what these have sent', async () => {
  const Stuck = defineProcess('withdrawn', 'Stuck', {
    state: empty,
    execute: async (ctx) =>
      void (await ctx.step('book', () => {
        throw new PermanentError('no book')
      })),
  })
  const Parent = defineProcess('withdrawn', 'Parent', {
    state: empty,
    async execute(ctx) {
      await Promise.all([
        ctx.child('sends', Payment, { of: 'of a child', mode: 'later' }),
        ctx.child('stuck', Stuck, {}),
      ])
    },
  })
  bus.hf.register(Stuck)
  bus.hf.register(Parent)
  await work('withdrawn')
  const { id } = await bus.hf.start(Parent, {})
  const children = async () => (await processes().list({ parent: id })).items
  await waitFor('all children wait', async () => {
    const found = await children()
    return (
      found.length === 2 &&
      found.every(({ status }) => status !== 'EXECUTING') &&
      found.some(({ status }) => status === 'WAITING_FOR_TSQ') &&
      found.some(({ status }) => status === 'WAITING_FOR_ASYNC')
    )
  })
  const sender = (await children()).find(({ status }) => status === 'WAITING_FOR_ASYNC')
  await commandOf(sender?.id ?? '')
  await bus.hf.process(Parent, id).complete(by)
  await waitFor('all children have ended', async () => (await children()).every(({ status }) => status === 'CANCELLED'))
  expect(await statusOf(sender?.id ?? '')).toBe('CANCELLED')
  expect(await get(Parent, id)).toMatchObject({ status: 'COMPLETED', error: null })
  expect(await bus.hf.trouble.count({ domain: 'withdrawn' })).toBe(0)
})
