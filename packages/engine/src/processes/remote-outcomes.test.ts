import { countStatements, gate, holdAt, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { assemble } from '../holdfast.js'
import { openDatabase } from '../kernel/database/open.js'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
})
afterAll(() => bus.close())

const domain = numbered('remote')
const HOUR = 3_600_000
const by = { actor: 'ann', reason: 'a test' }

/** A process that reserves, sends a payment as a command, and is too late; and a handler that pays when it is let. */
async function paying(onTimeout: 'compensate' | 'fail' | 'tsq', { handled }: { handled: boolean }) {
  const name = domain()
  const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
  const order: string[] = []
  const bank = gate()
  const Pay = defineProcess(name, 'Pay', {
    state: z.any(),
    execute: async (ctx: ProcessContext) => {
      await ctx.step('reserve', () => 'reserved', { compensate: () => order.push('reservation undone') })
      await ctx.command('pay', Do, 1, {
        timeout: '10m',
        onTimeout,
        compensate: (result, { outcome }) => order.push(`refunded ${result} ${outcome}`),
      })
    },
  })
  const work = () =>
    bus.work(
      Do,
      async () => {
        order.push('paying')
        await bank.passed
        order.push('paid')
        return 'receipt'
      },
      { lease: '12h' },
    )
  await bus.runProcesses(Pay, { lease: '12h' })
  if (handled) await work()
  const { id } = await bus.hf.start(Pay, {})
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  if (handled) await waitFor('it is paying', () => order.includes('paying'))
  // Not so far that a command without a handler is swept into troubleshooting meanwhile.
  await bus.moveClock(10 * 60_000 + 1)
  const statusOfCommand = async () => {
    const [row] = await bus.sql<{ status: string }>('select status from holdfast.command where correlation_id = $1', [
      id,
    ])
    return row?.status
  }
  return { id, order, bank, work, Pay, statusOfCommand }
}

test.each(['its reply', 'a cancel without compensation'])(
  'K-19 a process that cancels its command and receives %s meanwhile does not suspend without reading it',
  async (news) => {
    const held = holdAt('before processes.cancel-command')
    const counter = countStatements()
    const faults = async (point: string) => {
      await counter.faults(point)
      await held.faults(point)
    }
    const other = await openTestBus({ connectionString: bus.connectionString, faults })
    const name = domain()
    const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
    const bank = gate()
    const called = gate()
    const refunded: unknown[] = []
    const Pay = defineProcess(name, 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await Promise.all([
          ctx.command('pay', Do, 1, { compensate: (result) => refunded.push(result) }),
          ctx.step('check', async () => {
            await called.passed
            throw new BusinessError('no', { code: 'NO' })
          }),
        ])
      },
    })
    await bus.work(Do, async () => {
      called.open()
      await bank.passed
      return 'receipt'
    })
    await other.runProcesses(Pay)
    const { id } = await bus.hf.start(Pay, {}, { immediate: false })
    await held.reached
    if (news === 'its reply') {
      bank.open()
      await waitFor('the reply is recorded', async () => {
        const rows = await bus.sql('select from holdfast.process_response where process_id = $1', [id])
        return rows.length === 1
      })
    } else {
      await bus.cancel(id, 'PLAIN')
    }
    const looks = () => counter.counts.get('processes.find-news') ?? 0
    const before = looks()
    // The first of them may have begun before it was recorded.
    await waitFor('the execution hears of it', () => looks() >= before + 2)
    held.release()
    await bus.rests(id, news === 'its reply' ? 'COMPENSATED' : 'CANCELLED')
    expect(refunded).toEqual(news === 'its reply' ? ['receipt'] : [])
    bank.open()
    await other.close()
  },
)

describe('K-19 a command whose time is over', () => {
  test('and that has not begun is cancelled, never paid, and not refunded', async () => {
    const { id, order, work, statusOfCommand, bank } = await paying('compensate', { handled: false })
    await bus.rests(id, 'COMPENSATED')
    expect(await statusOfCommand()).toBe('CANCELLED')
    bank.open()
    await work()
    expect(order).toEqual(['reservation undone'])
  })

  test('and that has begun is awaited before anything is undone, and then refunded', async () => {
    const { id, order, bank } = await paying('compensate', { handled: true })
    expect(await bus.rests(id, 'COMPENSATING')).toMatchObject({ waiting_for: 'pay', error_code: 'WAIT_TIMEOUT' })
    expect(order).toEqual(['paying'])
    bank.open()
    await bus.rests(id, 'COMPENSATED')
    expect(order).toEqual(['paying', 'paid', 'refunded receipt completed', 'reservation undone'])
  })

  test('with onTimeout tsq continues: an operator’s retry finds its end, a cancel undoes it after its end', async () => {
    const retried = await paying('tsq', { handled: true })
    await bus.rests(retried.id, 'WAITING_FOR_TSQ')
    retried.bank.open()
    await bus.hf.process(retried.Pay, retried.id).retry(by)
    await bus.rests(retried.id, 'COMPLETED')
    expect(retried.order).toEqual(['paying', 'paid'])

    const cancelled = await paying('tsq', { handled: true })
    await bus.rests(cancelled.id, 'WAITING_FOR_TSQ')
    await bus.cancel(cancelled.id, 'COMPENSATE')
    await bus.rests(cancelled.id, 'COMPENSATING')
    cancelled.bank.open()
    await bus.rests(cancelled.id, 'CANCELLED')
    expect(cancelled.order).toEqual(['paying', 'paid', 'refunded receipt completed', 'reservation undone'])
  })

  test('with onTimeout fail ends with its process if it has not begun, and nothing is undone', async () => {
    const { id, order, statusOfCommand } = await paying('fail', { handled: false })
    await bus.rests(id, 'FAILED')
    expect(await statusOfCommand()).toBe('CANCELLED')
    expect(order).toEqual([])
  })

  test('and that an operator has cancelled after it was called is undone, because its outcome is unknown', async () => {
    const name = domain()
    const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
    const undone: unknown[] = []
    const Pay = defineProcess(name, 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        void (await ctx.command('pay', Do, 1, {
          retry: { maxAttempts: 1 },
          compensate: (result, { outcome }) => undone.push([result, outcome]),
        })),
    })
    await bus.runProcesses(Pay)
    await bus.work(Do, () => {
      throw new Error('read ECONNRESET')
    })
    const { id } = await bus.hf.start(Pay, {})
    const [sent] = await bus.sql<{ command_id: string }>(
      'select command_id from holdfast.command where correlation_id = $1',
      [id],
    )
    await waitFor(
      'it is in troubleshooting',
      async () => (await bus.hf.trouble.count({ model: 'commands', domain: Do.domain })) === 1,
    )
    await bus.hf.command(Do, sent?.command_id ?? '').cancel(by)
    await bus.rests(id, 'COMPENSATED')
    expect(undone).toEqual([[undefined, 'unknown']])
  })
})

test('K-19 a command that is refused after a call of unknown outcome is undone', async () => {
  const name = domain()
  const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), retry: { maxAttempts: 2, delays: ['1ms'] } })
  const undone: unknown[] = []
  const Pay = defineProcess(name, 'Pay', {
    state: z.any(),
    execute: async (ctx: ProcessContext) =>
      void (await ctx.command('pay', Do, 1, {
        compensate: (result, { outcome }) => undone.push([result, outcome]),
      })),
  })
  await bus.runProcesses(Pay)
  await bus.work(Do, (_, { attempt }) => {
    throw attempt === 1 ? new Error('read ECONNRESET') : new BusinessError('not enough money')
  })
  const { id } = await bus.hf.start(Pay, {})
  await bus.rests(id, 'COMPENSATED')
  expect(undone).toEqual([[undefined, 'unknown']])
})

describe('K-19 a command beside a step that fails', () => {
  test.each([
    ['undoes the process', new BusinessError('no')],
    ['sends it to a person, who cancels it', new PermanentError('no')],
  ])('a failure that %s: the command is not forgotten', async (_, failure) => {
    const name = domain()
    const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
    const undone: unknown[] = []
    const Pay = defineProcess(name, 'Pay', {
      state: z.any(),
      execute: (ctx: ProcessContext) =>
        Promise.all([
          ctx.command('pay', Do, 1, { compensate: (result) => undone.push(result) }),
          ctx.step('refused', async () => {
            await waitFor('the command was sent', async () => (await commandsOf(ctx.id)) === 1)
            throw failure
          }),
        ]),
    })
    await bus.runProcesses(Pay)
    const { id } = await bus.hf.start(Pay, {})
    if (failure instanceof PermanentError) {
      await bus.rests(id, 'WAITING_FOR_TSQ')
      await bus.hf.process(Pay, id).cancel(by, { compensate: true })
    }
    await bus.work(Do, () => 'receipt')
    await bus.rests(id, failure instanceof PermanentError ? 'CANCELLED' : 'COMPENSATED')
    const [command] = await bus.sql<{ status: string }>(
      'select status from holdfast.command where correlation_id = $1',
      [id],
    )
    // It is called off where it has not begun; what was paid is refunded.
    expect(undone).toEqual(command?.status === 'COMPLETED' ? ['receipt'] : [])
    expect(command?.status).not.toBe('PENDING')
  })

  async function commandsOf(id: string): Promise<number> {
    const [row] = await bus.sql<{ count: number }>(
      'select count(*)::int as count from holdfast.command where correlation_id = $1',
      [id],
    )
    return row?.count ?? 0
  }
})

describe('K-19 a command that may have been sent by a worker that was killed', () => {
  test.each(['before', 'after'] as const)('%s the send: a cancel does not leave it to be paid later', async (when) => {
    const name = domain()
    const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
    let paid = 0
    const undone: unknown[] = []
    const Pay = defineProcess(name, 'Pay', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await ctx.step('reserve', () => 'reserved', { compensate: (result) => undone.push(result) })
        await ctx.command('pay', Do, 1, { compensate: () => undone.push('refunded') })
      },
    })
    const never = new Promise<void>(() => undefined)
    let reached = false
    const faults = (point: string) => {
      if (point !== `${when} commands.flush-sends`) return undefined
      reached = true
      return never
    }
    const db = await openDatabase({ connectionString: bus.connectionString, faults })
    const dying = assemble(db, { logger: { debug() {}, info() {}, warn() {}, error() {} } })
    dying.register(Pay)
    const worker = await dying.run({ domains: [Pay.domain], poll: '20ms' })
    const { id } = await bus.hf.start(Pay, {}, { immediate: false })
    await waitFor('it is sending', () => reached)
    worker.stopNow()
    await bus.endLease(id)
    await bus.cancel(id, 'COMPENSATE')
    await bus.runProcesses(Pay)
    await bus.rests(id, 'CANCELLED')
    await bus.work(Do, () => {
      paid += 1
      return 'receipt'
    })
    expect(undone).toEqual(['reserved'])
    const rows = await bus.sql('select status from holdfast.command where correlation_id = $1', [id])
    expect(rows).toEqual([{ status: 'CANCELLED' }])
    expect(paid).toBe(0)
    await db.close()
  })
})

describe('K-19 a child whose time is over', () => {
  test('undoes itself before its parent undoes anything', async () => {
    const name = domain()
    const order: string[] = []
    const Child = defineProcess(name, 'Child', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await ctx.step('pay', () => order.push('child paid'), { compensate: () => order.push('child refunded') })
        await ctx.wait('never', () => false, { timeout: '10h' })
      },
    })
    const Parent = defineProcess(name, 'Parent', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await ctx.step('reserve', () => order.push('reserved'), { compensate: () => order.push('parent undone') })
        await ctx.child('pay', Child, 1, {
          timeout: '1h',
          onTimeout: 'compensate',
          compensate: () => order.push('must not be: the child has undone itself'),
        })
      },
    })
    bus.hf.register(Child)
    await bus.runProcesses(Parent, { lease: '12h' })
    const { id } = await bus.hf.start(Parent, {})
    await waitFor('the child has paid', () => order.includes('child paid'))
    await bus.rests(id, 'WAITING_FOR_ASYNC')
    await bus.moveClock(HOUR + 1)
    await bus.rests(id, 'COMPENSATED')
    expect(order).toEqual(['reserved', 'child paid', 'child refunded', 'parent undone'])
  })

  test('and that was cancelled without being undone is undone by its parent', async () => {
    const name = domain()
    const undone: unknown[] = []
    const Child = defineProcess(name, 'Child', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await ctx.step('pay', () => 'paid')
        await ctx.wait('never', () => false, { timeout: '10h' })
      },
    })
    const Parent = defineProcess(name, 'Parent', {
      state: z.any(),
      execute: async (ctx: ProcessContext) =>
        ctx.child('pay', Child, 1, {
          compensate: (result, { outcome }) => undone.push([result, outcome]),
        }),
    })
    bus.hf.register(Child)
    await bus.runProcesses(Parent)
    const { id } = await bus.hf.start(Parent, {})
    const child = await waitFor('the child has paid', async () => {
      const [row] = await bus.sql<{ id: string }>('select id from holdfast.process_detail where parent_id = $1', [id])
      return row && (await bus.history(row.id)).includes('STEP pay COMPLETED') ? row.id : undefined
    })
    await bus.cancel(child ?? '', 'PLAIN')
    await bus.rests(id, 'COMPENSATED')
    expect(undone).toEqual([[undefined, 'unknown']])
  })
})
