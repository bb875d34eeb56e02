import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import type { RecordedAuditEntry } from '../kernel/audit/audit.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import type { Handle } from '../kernel/model/handle.js'
import { defineCommand } from './define.js'
import type { CommandHandle } from './handle.js'
import type { CommandRecord } from './queries/find-commands.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const calls = {
  get: (handle: CommandHandle) => handle.get(),
  result: (handle: CommandHandle) => handle.result(),
  history: (handle: CommandHandle) => handle.history(),
  why: (handle: CommandHandle) => handle.why(),
  retry: (handle: CommandHandle) => handle.retry(by),
  cancel: (handle: CommandHandle) => handle.cancel(by),
  complete: (handle: CommandHandle) => handle.complete(by),
} as const

const statusOf = async (handle: CommandHandle) => (await handle.get()).status
const troubled = (handle: CommandHandle) =>
  waitFor('it is in troubleshooting', async () => (await statusOf(handle)) === 'IN_TROUBLESHOOTING_QUEUE')

test('U-02 send returns the handle of the command; created says whether this call sent it', async () => {
  const Do = defineCommand('handles', 'Do')
  const first = await bus.hf.send(Do, 1)
  expect(first.created).toBe(true)
  expect(await first.get()).toMatchObject({ id: first.id, domain: 'handles', type: 'Do', data: 1, status: 'PENDING' })
  const again = await bus.hf.send(Do, 2, { id: first.id, ifExists: 'ignore' })
  expect([again.id, again.created]).toEqual([first.id, false])
  expect((await again.get()).data).toBe(1)
})

test('U-02 sendMany returns an id for each, and whether this call sent it', async () => {
  const Do = defineCommand('handles_many', 'Do')
  const { id } = await bus.hf.send(Do, 0)
  const sent = await bus.hf.sendMany(Do, [{ data: 1 }, { data: 2, id, ifExists: 'ignore' }])
  expect(sent).toEqual([
    { id: expect.any(String), created: true },
    { id, created: false },
  ])
  expect((await bus.hf.command(Do, sent[0]?.id ?? '').get()).data).toBe(1)
})

test('U-04 a handle has its id and nothing else of its own: its methods are on the prototype', async () => {
  const Do = defineCommand('handles', 'Cheap')
  expect(Object.keys(bus.hf.command(Do, randomUUID()))).toEqual(['id'])
  expect(Object.keys(await bus.hf.send(Do, null))).toEqual(['id', 'created'])
})

test.each(Object.entries(calls))('U-04 %s of a command that does not exist is HF_NOT_FOUND', async (_, call) => {
  const id = randomUUID()
  const expected = { code: 'HF_NOT_FOUND', details: { model: 'commands', domain: 'handles', type: 'Do', id } }
  await expect(call(bus.hf.command({ domain: 'handles', type: 'Do' }, id))).rejects.toMatchObject(expected)
})

test.each(Object.entries(calls))('U-04 %s with the definition of another type is HF_NOT_FOUND', async (name, call) => {
  const { id } = await bus.hf.send(defineCommand('handles', `Of_${name}`), null)
  const other = bus.hf.command({ domain: 'handles', type: 'Other' }, id)
  await expect(call(other)).rejects.toMatchObject({ code: 'HF_NOT_FOUND', details: { type: 'Other', id } })
})

test('U-04 what is neither a definition nor { domain, type }, nor an id or a key, makes no handle', () => {
  const Do = defineCommand('handles', 'Do')
  expect(() => bus.hf.command({ domain: 'handles' } as never, randomUUID())).toThrow(
    expect.objectContaining({ code: 'HF_INVALID_OPTION' }),
  )
  for (const id of ['', 7, undefined]) {
    expect(() => bus.hf.command(Do, id as never)).toThrow(expect.objectContaining({ code: 'HF_INVALID_KEY' }))
  }
})

test('U-04 cancel ends what no worker has received yet, and what is in troubleshooting', async () => {
  const Do = defineCommand('handles_cancel', 'Do')
  const waiting = await bus.hf.send(Do, null)
  await waiting.cancel(by, { compensate: true })
  expect(await statusOf(waiting)).toBe('CANCELLED')
  await expect(waiting.cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })

  await bus.work(Do, () => {
    throw new PermanentError('no such account')
  })
  const failed = await bus.hf.send(Do, null)
  await troubled(failed)
  await failed.cancel(by, { compensate: false })
  expect(await statusOf(failed)).toBe('CANCELLED')
  expect((await failed.history()).at(-1)).toMatchObject({ event: 'OPERATOR_CANCEL', ...by })
  await expect(failed.result()).rejects.toMatchObject({ details: { status: 'CANCELLED' } })
})

test('U-04 cancel is refused while a worker has the command', async () => {
  const Do = defineCommand('handles_running', 'Do')
  let release = () => {}
  const end = new Promise<void>((resolve) => (release = resolve))
  await bus.work(Do, () => end)
  const running = await bus.hf.send(Do, null)
  await waitFor('it runs', async () => (await statusOf(running)) === 'IN_PROGRESS')
  await expect(running.cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  release()
  await running.result()
})

test('U-04 retry and complete end the troubleshooting of a command, and are audited with actor and reason', async () => {
  const Do = defineCommand('handles_retry', 'Do', { data: z.string(), result: z.string() })
  await bus.work(Do, (data) => {
    if (data === 'bad') throw new PermanentError('no such account')
    return data
  })
  const [one, other] = [await bus.hf.send(Do, 'bad'), await bus.hf.send(Do, 'bad')]
  await troubled(one)
  await one.retry(by, { data: 'good' })
  expect(await one.result()).toBe('good')
  await troubled(other)
  await other.complete(by, 'by hand')
  expect(await other.result()).toBe('by hand')
  expect((await other.history()).at(-1)).toMatchObject({ event: 'OPERATOR_COMPLETE', ...by })
})

test.each([
  ['retry', { date: 1 }],
  ['cancel', { compensat: true }],
] as const)('U-04 %s refuses options that it does not know', async (name, options) => {
  const handle: Record<typeof name, (who: typeof by, given: never) => Promise<void>> = await bus.hf.send(
    defineCommand('handles', 'Options'),
    null,
  )
  await expect(handle[name](by, options as never)).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
})

test.each(['retry', 'cancel', 'complete'] as const)('U-10 %s without actor and reason is refused', async (name) => {
  const handle = await bus.hf.send(defineCommand('handles', 'Who'), null)
  await expect(handle[name]({ actor: 'ann', reason: ' ' })).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
  await expect(handle[name](undefined as never)).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
})

test('U-09 a handle has the types of its definition', () => {
  const Book = defineCommand('handles', 'Book', {
    data: z.object({ amount: z.string().transform(Number) }),
    result: z.object({ reference: z.string() }),
  })
  const never = () => {
    const handle = bus.hf.command(Book, '')
    expectTypeOf(handle.result).returns.resolves.toEqualTypeOf<{ reference: string }>()
    expectTypeOf(bus.hf.send(Book, { amount: '1' })).resolves.toHaveProperty('created')
    expectTypeOf(handle).toExtend<Handle<{ reference: string }, CommandRecord, RecordedAuditEntry>>()
    void handle.retry(by, { data: { amount: '1' } })
    // @ts-expect-error what handlers get is not what senders give
    void handle.retry(by, { data: { amount: 1 } })
    // @ts-expect-error another result than was promised
    void handle.complete(by, { ref: 1 })
  }
  expect(never).toBeTypeOf('function')
})
