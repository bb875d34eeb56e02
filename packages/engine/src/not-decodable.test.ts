import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineCommand, defineManager, defineProcess, defineWorkflow, stepCommand } from './index.js'
import { type Codec, createCodec } from './kernel/codec/codec.js'

const inner = createCodec()
/** The key with which values are stored; one that was stored with another cannot be decoded. */
let key = 'first'
/** Stores what each value names as its own JSON, as a codec with a fault would. */
const faulty: Codec = {
  encode(value, options) {
    const { json, notes } = inner.encode(value, options)
    const raw = (value as { raw?: unknown } | null)?.raw
    if (typeof raw === 'string') return { json: raw, notes: null }
    return { json: JSON.stringify({ key, value: json, notes }), notes: null }
  },
  decode({ json }) {
    const stored = json as { key: string; value: string; notes: null }
    if (stored.key !== key) throw new Error(`there is no key ${stored.key}`)
    return inner.decode({ json: JSON.parse(stored.value), notes: stored.notes })
  },
}

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ codec: faulty })
})
afterAll(() => bus.close())
beforeEach(() => {
  key = 'first'
})

const domainOf = numbered('decode')
const work = async (...domains: string[]) => {
  const worker = await bus.hf.run({ domains, workflows: true, poll: '20ms', lease: '1s' })
  onTestFinished(async () => void (await worker.stop()))
}
const by = { actor: 'ann', reason: 'ticket 7' }

test('K-26 a process whose state cannot be decoded goes to troubleshooting on its first claim, and continues once it can be decoded', async () => {
  const domain = domainOf()
  const Pay = defineProcess(domain, 'Pay', {
    state: z.object({ n: z.number() }),
    execute: (ctx, state) => ctx.step('pay', () => state.n * 2),
  })
  bus.hf.register(Pay)
  const { id } = await bus.hf.start(Pay, { n: 21 }, { immediate: false })
  key = 'second'
  await work(domain)
  const troubled = await waitFor('it is in troubleshooting', async () => {
    const [found] = (await bus.hf.trouble.list({ model: 'processes', domain })).items
    return found
  })
  expect(troubled).toMatchObject({ code: 'NOT_DECODABLE', message: expect.stringContaining('no key first') })
  expect(await bus.sql('select lease_epoch from holdfast.process where id = $1', [id])).toEqual([{ lease_epoch: 2 }])
  key = 'first'
  await bus.hf.process(Pay, id).retry(by)
  expect(await bus.hf.process(Pay, id).result()).toBe(42)
})

test('K-26 a process whose history cannot be decoded goes to troubleshooting, and its steps are not called again', async () => {
  const domain = domainOf()
  let calls = 0
  const Pay = defineProcess(domain, 'Pay', {
    state: z.object({}),
    responses: { go: { data: z.object({}) } },
    async execute(ctx) {
      const paid = await ctx.step('pay', () => ++calls)
      await ctx.event('go', 'go', { timeout: '10d' })
      return paid
    },
  })
  bus.hf.register(Pay)
  await work(domain)
  const { id } = await bus.hf.start(Pay, {}, { immediate: false })
  await waitFor('it waits', async () => (await bus.hf.process(Pay, id).get()).status === 'WAITING_FOR_ASYNC')
  // Only the record of the step, so that the state and the response can be read.
  await bus.sql(
    `update holdfast.process_history set result = '{"key": "lost"}' where process_id = $1 and kind = 'STEP'`,
    [id],
  )
  await bus.hf.process(Pay, id).respond('go', {})
  const troubled = await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.list({ model: 'processes', domain })).items[0],
  )
  expect(troubled).toMatchObject({ code: 'NOT_DECODABLE', message: expect.stringContaining('no key lost') })
  expect(calls).toBe(1)
})

test('K-26 a step-based process whose state cannot be decoded goes to troubleshooting with the reply on record', async () => {
  const domain = domainOf()
  const Book = defineCommand(domain, 'Book')
  const Order = defineManager(domain, 'Order', {
    state: z.object({ n: z.number() }),
    steps: ['book'],
    firstStep: () => 'book',
    command: () => stepCommand(Book, {}),
    onReply: (state) => state,
    nextStep: () => null,
  })
  bus.hf.handle(Book, async () => 'booked')
  bus.hf.register(Order)
  const { id } = await bus.hf.start(Order, { n: 1 })
  await bus.sql(`update holdfast.process_detail set state = '{"key": "lost"}' where id = $1`, [id])
  await work(domain)
  const troubled = await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.list({ model: 'processes', domain })).items[0],
  )
  expect(troubled?.message).toContain('no key lost')
})

test('K-26 a command whose data cannot be decoded goes to troubleshooting on its first claim, and is not called', async () => {
  const domain = domainOf()
  const Pay = defineCommand(domain, 'Pay')
  let calls = 0
  bus.hf.handle(Pay, async () => ++calls)
  const { id } = await bus.hf.send(Pay, { n: 1 })
  key = 'second'
  await work(domain)
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain })) === 1,
  )
  key = 'first'
  const record = await bus.hf.command(Pay, id).get()
  expect(record).toMatchObject({
    attempts: 1,
    error: { code: 'INVALID_DATA', message: expect.stringContaining('no key first') },
  })
  expect(calls).toBe(0)
})

test('K-26 a workflow step whose input cannot be decoded fails at once, and is not called', async () => {
  const name = domainOf()
  let calls = 0
  bus.hf.handle(`pay ${name}`, async () => ++calls)
  const Flow = defineWorkflow('test', name, { dlq: true })
    .step('pay', `pay ${name}`, { retry: { maxAttempts: 5 } })
    .build()
  const { id } = await bus.hf.start(Flow, { n: 1 })
  key = 'second'
  await work()
  await waitFor('it has failed', async () => (await bus.hf.workflow(id).get()).status === 'DLQ')
  expect((await bus.hf.workflow(id).get()).error).toMatchObject({ code: 'HF_NOT_DECODABLE' })
  expect(calls).toBe(0)
})

test.each([
  ['no JSON', '{"a": ', 'not JSON'],
  ['a NUL', '"\\u0000"', 'u0000'],
  ['half of a surrogate pair', '"\\ud800"', 'surrogate'],
])(
  'K-26 a result of which a codec makes %s is one call and then troubleshooting, in every model',
  async (_, raw, said) => {
    const domain = domainOf()
    const calls = { step: 0, handler: 0, workflow: 0 }
    const Pay = defineProcess(domain, 'Pay', {
      state: z.object({}),
      async execute(ctx) {
        await ctx.step('pay', () => ({ raw, n: ++calls.step }), { retry: { maxAttempts: 5 } })
      },
    })
    const Book = defineCommand(domain, 'Book')
    bus.hf.register(Pay)
    bus.hf.handle(Book, async () => ({ raw, n: ++calls.handler }))
    bus.hf.handle(`pay ${domain}`, async () => ({ raw, n: ++calls.workflow }))
    const Flow = defineWorkflow('test', domain, { dlq: true })
      .step('pay', `pay ${domain}`, { retry: { maxAttempts: 5 } })
      .build()
    await work(domain)
    await bus.hf.start(Pay, {}, { immediate: false })
    await bus.hf.send(Book, {})
    const { id } = await bus.hf.start(Flow, {})
    const troubled = await waitFor(
      'the process is in troubleshooting',
      async () => (await bus.hf.trouble.list({ model: 'processes', domain })).items[0],
    )
    expect(troubled?.message).toContain(said)
    const [command] = await waitFor('the command is in troubleshooting', async () => {
      const found = (await bus.hf.trouble.list({ model: 'commands', domain })).items
      return found.length === 1 ? found : undefined
    })
    expect(command).toMatchObject({ code: 'RESULT_NOT_ENCODABLE', message: expect.stringContaining(said) })
    await waitFor('the workflow has failed', async () => (await bus.hf.workflow(id).get()).status === 'DLQ')
    expect((await bus.hf.workflow(id).get()).error).toMatchObject({ code: 'OUTPUT_NOT_ENCODABLE' })
    expect(calls).toEqual({ step: 1, handler: 1, workflow: 1 })
  },
)

test('K-26 K-19 what the database refuses to store goes to troubleshooting with the database’s message after one call', async () => {
  const domain = domainOf()
  let calls = 0
  const Pay = defineProcess(domain, 'Pay', {
    state: z.object({}),
    async execute(ctx) {
      await ctx.step('pay', () => ++calls)
    },
  })
  bus.hf.register(Pay)
  // A limit that an administrator has set, say.
  await bus.sql(`alter table holdfast.process_history add constraint at_most check (name <> 'pay') not valid`)
  onTestFinished(async () => void (await bus.sql('alter table holdfast.process_history drop constraint at_most')))
  await work(domain)
  await bus.hf.start(Pay, {}, { immediate: false })
  const troubled = await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.list({ model: 'processes', domain })).items[0],
  )
  expect(troubled).toMatchObject({ code: 'NOT_STORABLE', message: expect.stringContaining('at_most') })
  expect(calls).toBe(1)
})
