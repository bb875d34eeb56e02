import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import type { StepContext } from './context.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '500ms' })
  see = observeWorkflows(bus)
  await bus.hf.run({ poll: '20ms', concurrency: 8 })
})
afterAll(() => bus.close())

const named = numbered('outcomes')
const by = { actor: 'ann', reason: 'test' }
const soon = { retry: ['1ms'] } as const

/** A handler that notes what compensations are told, and one that fails for good. */
function undoing(name: string) {
  const told: Pick<StepContext, 'stepName' | 'outcome' | 'output' | 'input'>[] = []
  bus.hf.handle(`${name} undo`, (_, { stepName, outcome, output, input }) => {
    told.push({ stepName, outcome, output, input })
  })
  bus.hf.handle(`${name} no`, () => {
    throw new BusinessError('no')
  })
  return told
}

/** A bank that pays and then resets the connection, as often as it is told to; it can be asked. */
function bank(name: string, { pays = true, knows = true }: { pays?: boolean; knows?: boolean } = {}) {
  const paid: string[] = []
  let resets = 1
  const calls: string[] = []
  const pay = (_: unknown, { idempotencyKey }: StepContext) => {
    calls.push('pay')
    const reset = resets > 0
    resets -= 1
    if (!reset || pays) paid.push(idempotencyKey)
    if (reset) throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    return { receipt: paid.length }
  }
  const inquire = (_: unknown, { idempotencyKey }: { idempotencyKey: string }) => {
    calls.push('inquire')
    if (!knows) return 'unknown' as const
    return paid.includes(idempotencyKey) ? { done: { receipt: paid.length } } : ('notDone' as const)
  }
  return { name, paid, calls, pay, inquire }
}

test('K-19 a compensation gets the outcome of its step: its output where it completed, else that it is unknown or was refused', async () => {
  const name = named()
  const told = undoing(name)
  bus.hf.handle(`${name} ok`, () => null)
  bus.hf.handle(`${name} lost`, () => {
    throw new Error('socket hang up')
  })
  const undo = `${name} undo`
  const flow = (last: string, version: number) =>
    defineWorkflow('test', name, { version })
      .step('ok', `${name} ok`)
      .onFailure('undo ok', undo)
      .step('last', last, { retry: { maxAttempts: 2, delays: ['1ms'] } })
      .onFailure('undo last', undo)
      .build()
  for (const [last, version, outcome] of [
    [`${name} lost`, 1, 'unknown'],
    [`${name} no`, 2, 'refused'],
  ] as const) {
    told.length = 0
    const { id } = await bus.hf.start(flow(last, version), { n: 1 })
    await see.until(id, 'FAILED')
    expect(told).toEqual([
      { stepName: 'last', outcome, output: undefined, input: null },
      { stepName: 'ok', outcome: 'completed', output: null, input: { n: 1 } },
    ])
  }
})

test('K-19 a step whose input does not fit its schema was never called: it is not undone, and leaves no dead letter', async () => {
  const name = named()
  const told = undoing(name)
  bus.hf.handle(name, () => 1, { input: z.object({ amount: z.number() }) })
  const Flow = defineWorkflow('test', name).step('a', name).onFailure('undo a', `${name} undo`).build()
  const { id } = await bus.hf.start(Flow, { amount: 'much' })
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'a', code: 'HF_INVALID_DATA' })
  expect(told).toEqual([])
  expect(await see.statuses(id)).toEqual({ a: 'FAILED' })
  expect((await bus.hf.workflow(id).steps())[0]).toMatchObject({ attempts: 0 })
  expect(await bus.hf.trouble.count({ id })).toBe(0)
})

test('K-19 a handler whose output cannot be stored has had its effect: it is undone', async () => {
  const name = named()
  const told = undoing(name)
  bus.hf.handle(name, () => () => 1)
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .onFailure('undo a', `${name} undo`, { compensateIf: 'possible' })
    .build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ code: 'OUTPUT_NOT_ENCODABLE' })
  expect(told).toMatchObject([{ stepName: 'a', outcome: 'unknown', output: undefined }])
})

test('K-19 an attempt past its time limit is waited for: the next attempt and the compensation do not run beside it', async () => {
  const name = named()
  let running = 0
  const seen: string[] = []
  const enter = (what: string) => {
    seen.push(what)
    expect(running).toBe(0)
  }
  bus.hf.handle(name, async (_, { signal, attempt }) => {
    enter(`attempt ${attempt}`)
    running += 1
    // Told to stop, it needs a while for what it has begun.
    const told = gate()
    signal.addEventListener('abort', () => told.open())
    await told.passed
    await new Promise((resolve) => setTimeout(resolve, 100))
    seen.push(`effect ${attempt}`)
    running -= 1
  })
  bus.hf.handle(`${name} undo`, () => enter('undo'))
  const Flow = defineWorkflow('test', name)
    .step('a', name, { timeout: '30ms', retry: { maxAttempts: 2, delays: ['1ms'] } })
    .onFailure('undo a', `${name} undo`)
    .build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ code: 'TIMEOUT' })
  expect(seen).toEqual(['attempt 1', 'effect 1', 'attempt 2', 'effect 2', 'undo'])
})

const payFlow = (name: string, dlq = false) =>
  defineWorkflow('test', name, { dlq })
    .step('pay', `${name} pay`, { nonIdempotent: true, ...soon })
    .onFailure('refund', `${name} undo`)
    .step('ship', `${name} ship`)
    .build()

function opened(name: string, how?: Parameters<typeof bank>[1], withInquire = true) {
  const told = undoing(name)
  const it = bank(name, how)
  bus.hf.handle(`${name} pay`, it.pay, withInquire ? { inquire: it.inquire } : {})
  bus.hf.handle(`${name} ship`, (receipt) => receipt)
  return { ...it, told }
}

test('K-20 a bank that pays and resets the connection is asked, and not paid twice', async () => {
  const name = named()
  const { paid, calls, told } = opened(name)
  expect(await (await bus.hf.start(payFlow(name))).result()).toEqual({ receipt: 1 })
  expect([paid.length, calls, told]).toEqual([1, ['pay', 'inquire'], []])
})

test('K-20 a bank that did not pay says so, and is called again', async () => {
  const name = named()
  const { paid, calls } = opened(name, { pays: false })
  expect(await (await bus.hf.start(payFlow(name))).result()).toEqual({ receipt: 1 })
  expect([paid.length, calls]).toEqual([1, ['pay', 'inquire', 'pay']])
})

test.each([
  ['without inquire', undefined, false],
  ['with an inquire that does not know', { knows: false }, true],
] as const)(
  'K-20 %s it is not called again: the workflow fails with OUTCOME_UNKNOWN and begins with its refund',
  async (_, how, withInquire) => {
    const name = named()
    const { calls, told } = opened(name, how, withInquire)
    const { id } = await bus.hf.start(payFlow(name))
    expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'pay', code: 'OUTCOME_UNKNOWN' })
    expect(calls.filter((call) => call === 'pay')).toHaveLength(1)
    expect(told).toMatchObject([{ stepName: 'pay', outcome: 'unknown' }])
  },
)

test('K-20 in the DLQ: a requeue inquires first, and is a dead letter again while the outcome is unknown; an operator says whether it was done', async () => {
  const name = named()
  const { calls } = opened(name, { knows: false })
  const inDlq = async () => {
    const { id } = await bus.hf.start(payFlow(name, true))
    await see.until(id, 'DLQ')
    return id
  }
  const letterOf = async (id: string) => {
    const [letter] = (await bus.hf.trouble.list({ id })).items
    expect(letter).toMatchObject({ step: 'pay', code: 'OUTCOME_UNKNOWN', outcomeUnknown: true })
    return letter?.since ?? new Date(0)
  }
  const id = await inDlq()
  const first = await letterOf(id)
  calls.length = 0
  await bus.hf.workflow(id).retry(by)
  const again = await waitFor('it is back', async () => {
    const [letter] = (await bus.hf.trouble.list({ id })).items
    return letter && letter.since > first ? letter : undefined
  })
  expect(calls).toEqual(['inquire'])
  expect(again).toMatchObject({ step: 'pay', code: 'OUTCOME_UNKNOWN' })
  await expect(bus.hf.workflow(id).retry(by, { notDone: 'perhaps' as never })).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
  })
  await bus.hf.workflow(id).complete(by, { receipt: 'seen' })
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ receipt: 'seen' })
  expect(calls).toEqual(['inquire'])
  const requeued = (await bus.hf.workflow(id).history()).filter(({ type }) => type === 'dlq_requeued')
  expect(requeued.at(-1)).toMatchObject({ ...by, detail: { answer: 'done' } })
})

test('K-20 a person says that it was not done: it is called again, its attempts counted from the start', async () => {
  const name = named()
  const { calls } = opened(name, { pays: false, knows: false })
  const { id } = await bus.hf.start(payFlow(name, true))
  await see.until(id, 'DLQ')
  calls.length = 0
  await bus.hf.workflow(id).retry(by, { step: 'pay', notDone: true })
  await see.until(id, 'COMPLETED')
  expect(calls).toEqual(['pay'])
  expect((await bus.hf.workflow(id).steps()).find((step) => step.name === 'pay')).toMatchObject({ attempts: 1 })
})

test('K-20 after a crash the next worker inquires before it calls', async () => {
  const name = named()
  const calls: string[] = []
  const victim = await openTestBus({ connectionString: bus.connectionString })
  victim.hf.handle(`${name} pay`, () => {
    calls.push('paid')
    return new Promise(() => undefined)
  })
  const { id } = await bus.hf.start(payFlow(name))
  const worker = await victim.hf.run({ poll: '20ms' })
  await waitFor('it is called', () => calls.length === 1)
  worker.stopNow()
  undoing(name)
  bus.hf.handle(`${name} ship`, (receipt) => receipt)
  bus.hf.handle(`${name} pay`, () => calls.push('again'), {
    inquire: () => {
      calls.push('asked')
      return { done: 'receipt' }
    },
  })
  await see.endLease(id, 'pay')
  expect((await see.until(id, 'COMPLETED')).output).toBe('receipt')
  expect(calls).toEqual(['paid', 'asked'])
  await victim.close()
})

test('K-20 after a crash, found not done and refused by the next call: it is known that nothing was done', async () => {
  const name = named()
  let called = 0
  const victim = await openTestBus({ connectionString: bus.connectionString })
  victim.hf.handle(`${name} pay`, () => {
    called += 1
    return new Promise(() => undefined)
  })
  const { id } = await bus.hf.start(payFlow(name))
  const worker = await victim.hf.run({ poll: '20ms' })
  await waitFor('it is called', () => called === 1)
  worker.stopNow()
  const told = undoing(name)
  const refuse = () => {
    called += 1
    throw new BusinessError('no such account')
  }
  bus.hf.handle(`${name} pay`, refuse, { inquire: () => 'notDone' })
  await see.endLease(id, 'pay')
  await see.until(id, 'FAILED')
  expect(called).toBe(2)
  expect(told).toMatchObject([{ stepName: 'pay', outcome: 'refused' }])
  await victim.close()
})

test('K-20 one that goes on beyond the grace is not inquired about, because it may still have its effect', async () => {
  const name = named()
  const hasty = await openTestBus({ connectionString: bus.connectionString, abortGrace: '20ms' })
  const calls: string[] = []
  const end = gate()
  hasty.hf.handle(
    `${name} pay`,
    async () => {
      calls.push('pay')
      await end.passed
    },
    {
      inquire: () => {
        calls.push('inquire')
        return 'notDone'
      },
    },
  )
  const Flow = defineWorkflow('test', name)
    .step('pay', `${name} pay`, { nonIdempotent: true, timeout: '20ms', ...soon })
    .build()
  await hasty.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'pay', code: 'OUTCOME_UNKNOWN' })
  expect(calls).toEqual(['pay'])
  end.open()
  await hasty.close()
})

test.each(['after a crash', 'after an error'])(
  'K-20 a worker that stops while it inquires %s leaves the inquiry to the next worker, not to an operator',
  async (when) => {
    const name = named()
    const calls: string[] = []
    const asking = gate()
    const open = async (
      pay: () => unknown,
      inquire: (_: unknown, ctx: { readonly signal: AbortSignal }) => Promise<{ done: string }>,
    ) => {
      const service = await openTestBus({ connectionString: bus.connectionString })
      service.hf.handle(`${name} pay`, pay, { inquire })
      return service
    }
    const Flow = defineWorkflow('test', name)
      .step('pay', `${name} pay`, { nonIdempotent: true, ...soon })
      .build()
    const { id } = await bus.hf.start(Flow)
    const asks = (_: unknown, { signal }: { readonly signal: AbortSignal }) => {
      calls.push('asked')
      asking.open()
      return new Promise<never>((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    }
    const fails = () => {
      calls.push('paid')
      throw new Error('read ECONNRESET')
    }
    if (when === 'after a crash') {
      const victim = await open(
        () => {
          calls.push('paid')
          return new Promise(() => undefined)
        },
        () => Promise.reject(new Error('never asked')),
      )
      const dying = await victim.hf.run({ poll: '20ms' })
      await waitFor('it is called', () => calls.length === 1)
      dying.stopNow()
      await see.endLease(id, 'pay')
      await victim.close()
    }
    const stopping = await open(fails, asks)
    const worker = await stopping.hf.run({ poll: '20ms' })
    await asking.passed
    await worker.stop('10ms')
    await stopping.close()
    const last = await open(fails, async () => {
      calls.push('asked again')
      return { done: 'receipt' }
    })
    await last.hf.run({ poll: '20ms' })
    expect((await see.until(id, 'COMPLETED')).output).toBe('receipt')
    expect(calls).toEqual(['paid', 'asked', 'asked again'])
    await last.close()
  },
)

test('K-20 a compensation that must not be repeated waits for a person, who says that it is undone', async () => {
  const name = named()
  let refunds = 0
  bus.hf.handle(`${name} no`, () => {
    throw new BusinessError('no')
  })
  bus.hf.handle(`${name} refund`, () => {
    refunds += 1
    throw new Error('socket hang up')
  })
  const Flow = defineWorkflow('test', name)
    .step('pay', `${name} no`)
    .onFailure('refund', `${name} refund`, { nonIdempotent: true, ...soon })
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'FAILED')
  const [letter] = (await bus.hf.trouble.list({ id })).items
  expect(letter).toMatchObject({ compensating: true, code: 'OUTCOME_UNKNOWN', outcomeUnknown: true })
  await bus.hf.workflow(id).complete(by, null, { step: 'pay' })
  expect(await see.statuses(id)).toEqual({ pay: 'ROLLED_BACK' })
  expect(refunds).toBe(1)
})

test('K-26 orderly stops during a call are no crashes: a step of two attempts survives five of them', async () => {
  const name = named()
  const attempts: number[] = []
  let stopped = 0
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .build()
  const { id } = await bus.hf.start(Flow)
  for (let stops = 0; stops < 5; stops += 1) {
    const service = await openTestBus({ connectionString: bus.connectionString })
    const called = gate()
    service.hf.handle(name, (_, { signal, attempt }) => {
      attempts.push(attempt)
      called.open()
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    })
    const worker = await service.hf.run({ poll: '20ms' })
    await called.passed
    stopped += 1
    await worker.stop('10ms')
    await see.untilStep(id, 'a', 'PENDING')
    await service.close()
  }
  bus.hf.handle(name, (_, { attempt }) => attempt)
  expect((await see.until(id, 'COMPLETED')).output).toBe(1)
  expect([stopped, attempts]).toEqual([5, [1, 1, 1, 1, 1]])
})
