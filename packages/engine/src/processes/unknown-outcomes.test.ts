import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import type { CompensationCall, Inquiry, ProcessContext, StepOptions } from './context.js'
import { defineProcess } from './define.js'
import type { StepFailed } from './step-failed.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
})
afterAll(() => bus.close())

const domain = numbered('unknown')
const HOUR = 3_600_000

/** Two parallel steps: a payment that has its effect and never comes back, and a check that fails when it is told to. */
function parallel(options: Partial<StepOptions<string>> = {}) {
  const paid: string[] = []
  const undone: unknown[] = []
  const fails = gate()
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    deadlineAction: 'compensate',
    execute: async (ctx: ProcessContext) => {
      await Promise.all([
        ctx.step<string>(
          'pay',
          ({ idempotencyKey }) => {
            paid.push(idempotencyKey)
            return new Promise(() => undefined)
          },
          {
            compensate: (result, { outcome }) => undone.push([result, outcome]),
            ...options,
          },
        ),
        ctx.step('check', async () => {
          await fails.passed
          throw new BusinessError('no', { code: 'NO' })
        }),
      ])
    },
  })
  return { Pay, paid, undone, fails }
}

/** Its worker dies while it pays; where the check fails first, that is on record. */
async function killed({ Pay, paid, fails }: ReturnType<typeof parallel>, { checked }: { checked: boolean }) {
  const worker = await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {}, { immediate: false, deadline: '1h' })
  await waitFor('it has paid', () => paid.length === 1)
  if (checked) {
    fails.open()
    await waitFor('the check is on record', async () => (await bus.history(id)).includes('STEP check FAILED'))
  }
  worker.stopNow()
  return id
}

const anotherWorker = ({ Pay }: ReturnType<typeof parallel>, id: string) =>
  bus.endLease(id).then(() => bus.hf.run({ domains: [Pay.domain], poll: '20ms' }))

describe('K-19 a worker is killed while a step is in its call and has had its effect', () => {
  test('and the other step has failed: it is undone, and not called again', async () => {
    const process = parallel()
    const id = await killed(process, { checked: true })
    await anotherWorker(process, id)
    await bus.rests(id, 'COMPENSATED')
    expect(process.undone).toEqual([[undefined, 'unknown']])
    expect(process.paid).toHaveLength(1)
    expect(await bus.history(id)).toEqual([
      'STEP check FAILED',
      'STEP pay STARTED',
      'UNWIND FAILURE STARTED',
      'COMPENSATION pay COMPLETED',
    ])
  })

  test('and then cancelled', async () => {
    const process = parallel()
    const id = await killed(process, { checked: false })
    await bus.cancel(id, 'COMPENSATE')
    await anotherWorker(process, id)
    await bus.rests(id, 'CANCELLED')
    expect(process.undone).toEqual([[undefined, 'unknown']])
    expect(process.paid).toHaveLength(1)
  })

  test('and then past its deadline, which compensates', async () => {
    const process = parallel()
    const id = await killed(process, { checked: false })
    await bus.moveClock(2 * HOUR)
    await anotherWorker(process, id)
    expect((await bus.rests(id, 'COMPENSATED')).error_code).toBe('DEADLINE_EXCEEDED')
    expect(process.undone).toEqual([[undefined, 'unknown']])
    expect(process.paid).toHaveLength(1)
  })

  test("with compensateIf 'attempted' it is undone, with 'completed' it is not", async () => {
    for (const compensateIf of ['attempted', 'completed'] as const) {
      const process = parallel({ compensateIf })
      const id = await killed(process, { checked: true })
      await anotherWorker(process, id)
      await bus.rests(id, 'COMPENSATED')
      expect(process.undone).toEqual(compensateIf === 'attempted' ? [[undefined, 'unknown']] : [])
    }
  })

  const answers: [string, Inquiry<string> | undefined, unknown[]][] = [
    ['done', { done: 'receipt' }, [['receipt', 'completed']]],
    ['not done', 'notDone', []],
    ['unknown', 'unknown', [[undefined, 'unknown']]],
    ['no inquire', undefined, [[undefined, 'unknown']]],
  ]
  test.each(answers)('atMostOnce: the bank is asked before it is undone: %s', async (_, answer, undone) => {
    const process = parallel({ atMostOnce: true, ...(answer ? { inquire: () => answer } : {}) })
    const id = await killed(process, { checked: true })
    await anotherWorker(process, id)
    await bus.rests(id, 'COMPENSATED')
    expect(process.undone).toEqual(undone)
    expect(process.paid).toHaveLength(1)
  })

  test.each<[string, Inquiry<string>, number]>([
    ['done', { done: 'receipt' }, 2],
    ['not done', 'notDone', 0],
  ])(
    'atMostOnce whose failure user code has caught: the answer %s is on record for the next worker',
    async (_, answer, calls) => {
      let undos = 0
      let restores = 0
      const Pay = defineProcess(domain(), 'Pay', {
        state: z.any(),
        execute: async (ctx: ProcessContext) => {
          const failsOnce = () => {
            restores += 1
            if (restores === 1) throw new TransientError('not now')
          }
          // Undone last, so that another worker reads the answer from the record.
          await ctx.step('first', () => 1, { compensate: failsOnce, compensateRetry: { delay: '1ms' } })
          const begun = gate()
          await Promise.all([
            ctx
              .step(
                'pay',
                ({ signal }) => {
                  begun.open()
                  return new Promise<string>((_, reject) =>
                    signal.addEventListener('abort', () => reject(signal.reason)),
                  )
                },
                {
                  atMostOnce: true,
                  onFailure: 'throw',
                  inquire: () => answer,
                  compensate: () => {
                    undos += 1
                    if (undos === 1) throw new TransientError('not now')
                  },
                  compensateRetry: { delay: '1ms' },
                },
              )
              .catch(() => undefined),
            ctx.step('check', async () => {
              await begun.passed
              throw new BusinessError('no', { code: 'NO' })
            }),
          ])
        },
      })
      await bus.runProcesses(Pay)
      const { id } = await bus.hf.start(Pay, {}, { immediate: false })
      expect((await bus.rests(id, 'COMPENSATED')).error_code).toBe('NO')
      expect([undos, restores]).toEqual([calls, 2])
    },
  )

  test('a second crash, a worker whose code does not fit, and an orderly stop do not lose it', async () => {
    const process = parallel()
    const id = await killed(process, { checked: false })
    const second = await anotherWorker(process, id)
    await waitFor('it is called again', () => process.paid.length === 2)
    second.stopNow()
    await bus.endLease(id)
    // An older program, which knows nothing of the payment.
    const older = await openTestBus({ connectionString: bus.connectionString })
    const Older = defineProcess(process.Pay.domain, 'Pay', {
      state: z.any(),
      execute: async (ctx) => void (await ctx.step('something else', () => 1)),
    })
    const misfit = await older.runProcesses(Older)
    await waitFor('it is given back', async () => (await bus.process(id)).error_code === 'NON_DETERMINISM')
    await misfit.stop()
    await older.close()
    await bus.cancel(id, 'COMPENSATE')
    await anotherWorker(process, id)
    await bus.rests(id, 'CANCELLED')
    expect(process.undone).toEqual([[undefined, 'unknown']])
    expect(process.paid).toHaveLength(2)
  })

  test('a refusal after the crash does not undo what the first call did', async () => {
    const undone: unknown[] = []
    let calls = 0
    const Pay = defineProcess(domain(), 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        void (await ctx.step(
          'pay',
          () => {
            calls += 1
            if (calls === 1) return new Promise<string>(() => undefined)
            throw new BusinessError('not enough money: the first call took it')
          },
          {
            compensate: (result, { outcome }) => undone.push([result, outcome]),
          },
        )),
    })
    const first = await bus.runProcesses(Pay)
    const { id } = await bus.hf.start(Pay, {}, { immediate: false })
    await waitFor('it has paid', () => calls === 1)
    first.stopNow()
    await bus.endLease(id)
    await bus.hf.run({ domains: [Pay.domain], poll: '20ms' })
    await bus.rests(id, 'COMPENSATED')
    expect([calls, undone]).toEqual([2, [[undefined, 'unknown']]])
  })
})

describe('K-19 a live worker', () => {
  test('stops running steps when a sibling fails, waits for them, and undoes them', async () => {
    const undone: unknown[] = []
    const order: string[] = []
    const Pay = defineProcess(domain(), 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        const running = gate()
        await Promise.all([
          ctx.step(
            'obeys',
            ({ signal }) =>
              new Promise<string>((_, reject) => {
                running.open()
                signal.addEventListener('abort', () => {
                  order.push('told to stop')
                  setTimeout(() => {
                    order.push('stopped')
                    reject(signal.reason)
                  }, 20)
                })
              }),
            {
              compensate: (result, { outcome }) => {
                order.push('undone')
                undone.push([result, outcome])
              },
            },
          ),
          ctx.step('fails', async () => {
            await running.passed
            throw new BusinessError('no')
          }),
        ])
      },
    })
    const { status } = await (await bus.hf.start(Pay, {})).get()
    expect(status).toBe('COMPENSATED')
    expect(order).toEqual(['told to stop', 'stopped', 'undone'])
    expect(undone).toEqual([[undefined, 'unknown']])
  })

  test.each([
    ['a transient error between two attempts', () => new TransientError('busy'), [[undefined, 'unknown']]],
    ['a failure that says nothing', () => new Error('socket hang up'), [[undefined, 'unknown']]],
    ['a failure that says that nothing was done', () => new PermanentError('no such account'), []],
  ])('undoes what was cancelled after %s', async (_, thrown, expected) => {
    const undone: unknown[] = []
    const Pay = defineProcess(domain(), 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        void (await ctx.step(
          'pay',
          (): string => {
            throw thrown()
          },
          {
            retry: { maxAttempts: 3, delay: '1h' },
            compensate: (result: string | undefined, call: CompensationCall) => undone.push([result, call.outcome]),
          },
        )),
    })
    const { id } = await bus.hf.start(Pay, {})
    await bus.runProcesses(Pay)
    await bus.cancel(id, 'COMPENSATE')
    await bus.rests(id, 'CANCELLED')
    expect(undone).toEqual(expected)
  })

  test('does not undo what only waited for a slot', async () => {
    const key = `${domain()}-limit`
    await bus.hf.limits.set(key, { ticketsPerSecond: 0.01, burst: 1 }, { actor: 'ann', reason: 'a test' })
    expect(await bus.hf.limits.tryAcquire(key)).toBe(true)
    const undone: unknown[] = []
    const Pay = defineProcess(domain(), 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        void (await ctx.step('pay', () => 'paid', {
          rateLimit: { key, maxWait: 1 },
          compensateIf: 'attempted',
          compensate: () => undone.push('undone'),
        })),
    })
    const { id, status } = await (await bus.hf.start(Pay, {})).get()
    expect(status).toBe('WAITING_FOR_RETRY')
    await bus.cancel(id, 'COMPENSATE')
    await bus.runProcesses(Pay)
    await bus.rests(id, 'CANCELLED')
    expect(undone).toEqual([])
  })

  test('undoes a step whose result cannot be stored: it has had its effect', async () => {
    const undone: unknown[] = []
    const Pay = defineProcess(domain(), 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        void (await ctx.step('pay', () => () => 'a function', {
          compensate: (_, { outcome }) => undone.push(outcome),
        })),
    })
    const { id, status } = await (await bus.hf.start(Pay, {})).get()
    expect(status).toBe('WAITING_FOR_TSQ')
    await bus.cancel(id, 'COMPENSATE')
    await bus.runProcesses(Pay)
    await bus.rests(id, 'CANCELLED')
    expect(undone).toEqual(['unknown'])
  })
})

test('K-08 a compensation is tried as often as its step says', async () => {
  const calls: string[] = []
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx: ProcessContext) => {
      for (const [name, compensateMaxAttempts] of [
        ['once', 1],
        ['four times', 4],
      ] as const) {
        await ctx.step(name, () => name, {
          compensateRetry: { maxAttempts: compensateMaxAttempts, delay: 1 },
          compensate: (result, { attempt }) => {
            calls.push(`${result} ${attempt}`)
            throw new Error('the bank is closed')
          },
        })
      }
      throw new BusinessError('undo it')
    },
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {})
  const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_code).toBe('COMPENSATION_FAILED')
  expect(error_message).toContain('`four times` failed 4 times')
  expect(calls).toEqual(['four times 1', 'four times 2', 'four times 3', 'four times 4', 'once 1'])
})

test('K-19 a failure that user code catches says whether the call may have had its effect', async () => {
  const caught: string[] = []
  const Pay = defineProcess('caught-outcome', 'Pay', {
    state: z.any(),
    async execute(ctx) {
      for (const [name, error] of [
        ['reset', new Error('socket hang up')],
        ['declined', new BusinessError('declined')],
      ] as const) {
        await ctx
          .step(name, () => Promise.reject(error), { onFailure: 'throw' })
          .catch((failed: unknown) => void caught.push(`${name} ${(failed as StepFailed).outcome}`))
      }
      await ctx.sleep('replay it', '1ms')
    },
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {}, { immediate: false })
  await bus.rests(id, 'COMPLETED')
  expect(new Set(caught)).toEqual(new Set(['reset unknown', 'declined refused']))
})
