import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../kernel/codec/codec.js'
import { defineType } from '../kernel/codec/type.js'
import type { BatchSummary } from './batches.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const Book = defineCommand('typed', 'Book', {
  data: z.object({ amount: z.string().transform(Number), note: z.string().default('none') }),
  result: z.object({ reference: z.string() }),
})

test('C-06 the types of a definition reach its sender, its handler and the code that awaits its result', async () => {
  await bus.work(Book, (data, ctx) => {
    expectTypeOf(data).toEqualTypeOf<{ amount: number; note: string }>()
    expectTypeOf(ctx.attempt).toEqualTypeOf<number>()
    return { reference: `${data.amount + 1} ${data.note}` }
  })
  const result = await (await bus.hf.send(Book, { amount: '41' })).result()
  expectTypeOf(result).toEqualTypeOf<{ reference: string }>()
  expect(result).toEqual({ reference: '42 none' })
})

test('C-06 the compiler refuses what does not fit', () => {
  const never = () => {
    // @ts-expect-error a field is missing
    void bus.hf.send(Book, {})
    // @ts-expect-error of another type
    void bus.hf.send(Book, { amount: 1 })
    // @ts-expect-error not a field of it
    void bus.hf.send(Book, { amount: '1', currency: 'EUR' })
    // @ts-expect-error one of many is wrong
    void bus.hf.sendMany(Book, [{ data: { amount: '1' } }, { data: {} }])
    // @ts-expect-error another result than was promised
    bus.hf.handle(Book, () => ({ ref: 1 }))
    // @ts-expect-error an option that is not there
    void bus.hf.send(Book, { amount: '1' }, { dealy: '1s' })
    // @ts-expect-error edited data of another type
    void bus.hf.command(Book, '').retry({ actor: 'a', reason: 'r' }, { data: { amount: 1 } })
  }
  expect(never).toBeTypeOf('function')
})

test('C-12 a callback may take fewer fields than it is given, and not more', () => {
  const Less = defineCommand('typed', 'Less', { data: z.object({ batchId: z.string(), total: z.number() }) })
  const More = defineCommand('typed', 'More', { data: z.object({ batchId: z.string(), owner: z.string() }) })
  const never = () => {
    void bus.hf.batches.open('typed', { onComplete: Less })
    // @ts-expect-error nobody would give it an owner
    void bus.hf.batches.open('typed', { onComplete: More })
  }
  expectTypeOf<BatchSummary>().toExtend<{ batchId: string; total: number }>()
  expect(never).toBeTypeOf('function')
})

test('C-06 a command without schemas accepts and returns anything', async () => {
  const Any = defineCommand('untyped', 'Any')
  await bus.work(Any, (data) => {
    expectTypeOf(data).toEqualTypeOf<unknown>()
    return data
  })
  expect(await (await bus.hf.send(Any, [1, null, 'x'])).result()).toEqual([1, null, 'x'])
  expect(await (await bus.hf.send(Any, null)).result()).toBeNull()
})

test('K-10 Date, bigint, Map and Set survive from the sender to the handler and back', async () => {
  const Rich = defineCommand('rich', 'Rich', { data: z.custom<unknown>() })
  const value = { at: new Date(0), big: 12345678901234567890n, map: new Map([['a', new Date(1)]]), set: new Set([1]) }
  const seen: unknown[] = []
  await bus.work(Rich, (data) => {
    seen.push(data)
    return data
  })
  const { id } = await bus.hf.send(Rich, value)
  expect(await bus.hf.command(Rich, id).result()).toEqual(value)
  expect(seen).toEqual([value])
  expect(await bus.hf.command(Rich, id).get()).toMatchObject({ data: value, result: value })
})

test('K-10 a codec with a registered type is used on both ends, and a plain one still lists the command', async () => {
  class Money {
    readonly cents: number
    constructor(cents: number) {
      this.cents = cents
    }
  }
  const money = defineType({
    name: 'money',
    is: (value): value is Money => value instanceof Money,
    encode: ({ cents }) => cents,
    decode: (cents) => new Money(Number(cents)),
  })
  const rich = await openTestBus({ codec: createCodec({ types: [money] }), connectionString: bus.connectionString })
  const Pay = defineCommand('codec', 'Pay')
  await rich.work(Pay, (data) => data)
  const { id } = await rich.hf.send(Pay, { price: new Money(5) })
  expect(await rich.hf.command(Pay, id).result()).toEqual({ price: new Money(5) })
  // What this process cannot decode is shown as the JSON that it is.
  expect((await bus.hf.commands.list({ domain: 'codec' })).items).toMatchObject([{ id, data: { price: 5 } }])
  await rich.close()
})

test('C-13 a retry gives the handler what the first attempt got, also where the schema transforms', async () => {
  const Once = defineCommand('transforming', 'Once', {
    data: z.string().transform((text) => new Date(text)),
    retry: { maxAttempts: 1 },
  })
  const seen: unknown[] = []
  await bus.work(Once, (data) => {
    seen.push(data)
    if (seen.length === 1) throw new Error('first')
  })
  const { id } = await bus.hf.send(Once, '2030-01-01T00:00:00Z')
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'transforming' })) === 1,
  )
  await bus.hf.command(Once, id).retry({ actor: 'ann', reason: 'again' })
  await bus.hf.command(Once, id).result()
  expect(seen).toEqual([new Date('2030-01-01T00:00:00Z'), new Date('2030-01-01T00:00:00Z')])
})
