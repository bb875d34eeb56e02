import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, work, get, until, events, repairable } = await openOperations()
afterAll(() => bus.close())

test('P-16 retry goes on at the failed step with its attempts at zero, and is audited with actor and reason', async () => {
  const { Payment, calls, failing } = repairable('retry', { maxAttempts: 2 })
  failing.add('AAAA')
  const worker = await work('retry')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' }, { key: 'PAY-1' })
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(calls).toEqual(['reserve', 'pay AAAA 1', 'pay AAAA 2'])
  expect((await get(Payment, id)).error).toMatchObject({ code: 'RETRIES_EXHAUSTED' })
  await worker.stop()

  await bus.hf.process(Payment, 'PAY-1').retry(by)
  expect(await get(Payment, id)).toMatchObject({ status: 'PENDING', error: null, waitingFor: null })
  expect(await bus.hf.trouble.count({ model: 'processes', domain: 'retry' })).toBe(0)
  await work('retry')
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(calls.slice(3)).toEqual(['pay AAAA 1', 'pay AAAA 2'])

  failing.clear()
  await bus.hf.process(Payment, id).retry(by)
  expect(await bus.hf.process(Payment, id).result()).toBe('paid AAAA')
  expect(calls.slice(5)).toEqual(['pay AAAA 1'])
  const timeline = await bus.hf.process(Payment, id).history()
  expect(timeline.filter(({ event }) => event === 'TSQ_RETRY')).toEqual([
    expect.objectContaining({
      ...by,
      before: expect.objectContaining({ status: 'WAITING_FOR_TSQ', errorCode: 'RETRIES_EXHAUSTED' }),
      after: { status: 'PENDING' },
    }),
    expect.objectContaining(by),
  ])
})

test('P-16 a correction is a response: parsed, recorded in the same transaction, in the state from the retry on', async () => {
  const { Payment, calls, failing } = repairable('corrected')
  failing.add('AAAA')
  await work('corrected')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA', when: new Date(0) })
  expect((await get(Payment, id)).status).toBe('WAITING_FOR_TSQ')
  const wrong = { response: { name: 'corrected', data: { iban: 'TOO LONG' } } } as const
  await expect(bus.hf.process(Payment, id).retry(by, wrong)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  const unknown = { response: { name: 'corected', data: { iban: 'BBBB' } } }
  await expect(bus.hf.process({ domain: 'corrected', type: 'Payment' }, id).retry(by, unknown)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_RESPONSE',
  })
  expect((await get(Payment, id)).status).toBe('WAITING_FOR_TSQ')

  await bus.hf.process(Payment, id).retry(by, { response: { name: 'corrected', data: { iban: 'BBBB' } } })
  expect(await bus.hf.process(Payment, id).result()).toBe('paid BBBB')
  expect(calls).toEqual(['reserve', 'pay AAAA 1', 'pay BBBB 1'])
  const { state } = await get(Payment, id)
  expect(state).toEqual({ iban: 'BBBB', when: new Date(0) })
  const told = (await bus.hf.process(Payment, id).history()).map(({ type, event, name }) => event ?? `${type} ${name}`)
  expect(told.slice(-3)).toEqual(['ASYNC_RESPONSE corrected', 'TSQ_RETRY', 'STEP pay'])
})

test('P-16 a retry of a failed compensation runs only what failed, and continues the compensation', async () => {
  let broken = true
  const undone: string[] = []
  const Undo = defineProcess('undo-retry', 'Undo', {
    state: empty,
    async execute(ctx) {
      for (const name of ['a', 'b']) {
        await ctx.step(name, () => name, {
          compensate: () => {
            if (name === 'a' && broken) throw new Error('not now')
            undone.push(name)
          },
        })
      }
      throw new BusinessError('declined')
    },
  })
  bus.hf.register(Undo)
  await work('undo-retry')
  const { id } = await bus.hf.start(Undo, {}, { deadline: '1h' })
  await waitFor('it needs a person', async () => {
    await bus.moveClock(10_000)
    return (await get(Undo, id)).status === 'WAITING_FOR_TSQ'
  })
  broken = false
  await bus.moveClock(3_600_000)
  await bus.hf.process(Undo, id).retry(by)
  await until(Undo, id, 'COMPENSATED')
  expect(undone).toEqual(['b', 'a'])
  expect(await events(Undo, id)).toEqual([
    'PROCESS_CREATED',
    'COMPENSATION_SUCCESS',
    'COMPENSATION_FAILED',
    'TSQ_RETRY',
    'COMPENSATION_SUCCESS',
  ])
})

test('P-15, P-16 a retry past the deadline is refused without a new one', async () => {
  const Slow = defineProcess('late-retry', 'Slow', {
    state: empty,
    responses: { go: { data: empty } },
    async execute(ctx) {
      await ctx.event('go', 'go', { timeout: '10d' })
      return 'gone'
    },
  })
  bus.hf.register(Slow)
  await work('late-retry')
  const { id } = await bus.hf.start(Slow, {}, { deadline: '1h' })
  await bus.moveClock(3_600_001)
  await until(Slow, id, 'WAITING_FOR_TSQ')
  expect((await get(Slow, id)).error?.code).toBe('DEADLINE_EXCEEDED')
  await expect(bus.hf.process(Slow, id).retry(by)).rejects.toMatchObject({ code: 'HF_DEADLINE_EXCEEDED' })
  await expect(bus.hf.process(Slow, id).retry(by, { deadline: new Date(0) })).rejects.toMatchObject({
    code: 'HF_DEADLINE_EXCEEDED',
  })
  expect((await get(Slow, id)).status).toBe('WAITING_FOR_TSQ')
  await bus.hf.process(Slow, id).retry(by, { deadline: '2h' })
  await until(Slow, id, 'WAITING_FOR_ASYNC')
  await bus.hf.process(Slow, id).respond('go', {})
  expect(await bus.hf.process(Slow, id).result()).toBe('gone')
  expect(await events(Slow, id)).toEqual(['PROCESS_CREATED', 'DEADLINE_EXCEEDED', 'TSQ_RETRY'])
})

test('P-16 corrections and results are typed by the definition', async () => {
  const { Payment } = repairable('typed')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' }, { immediate: false })
  const wrong = [
    // @ts-expect-error There is no such response.
    bus.hf.process(Payment, id).retry(by, { response: { name: 'corected', data: { iban: 'BBBB' } } }),
    // @ts-expect-error Its data is something else.
    bus.hf.process(Payment, id).retry(by, { response: { name: 'corrected', data: { iban: 5 } } }),
  ]
  for (const refused of wrong) await expect(refused).rejects.toThrow()
  // @ts-expect-error The process returns a text.
  await bus.hf.process(Payment, id).complete(by, 5)
  await bus.hf
    .process(Payment, id)
    .complete(by, 'by hand')
    .catch(() => undefined)
})
