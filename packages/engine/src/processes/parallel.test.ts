import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('parallel')
const anything = z.any()

test('P-06 a replay settles recorded results in the order in which they came the first time', async () => {
  const slow = gate()
  const orders: string[] = []
  const calls: string[] = []
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    async execute(ctx) {
      const order: string[] = []
      const note = (name: string) => () => order.push(name)
      const called = (name: string, then: () => unknown) => () => {
        calls.push(name)
        return then()
      }
      // Called first, and done last: a replay that settles in the order of the calls would take the other path.
      const first = ctx
        .step(
          'first called',
          called('first', () => slow.passed),
        )
        .then(note('first'))
      const second = ctx
        .step(
          'second called',
          called('second', () => slow.open()),
        )
        .then(note('second'))
      await Promise.all([first, second])
      orders.push(order.join())
      if (order[0] === 'second') await ctx.step('second won', () => 'ok')
      else await ctx.step('first won', () => 'ok')
      await ctx.sleep('a', '1h')
      await ctx.sleep('b', '1h')
      return order[0]
    },
  })
  await bus.runProcesses(Race)
  const { id } = await bus.hf.start(Race, {})
  await bus.wakeUp(id)
  await bus.wakeUp(id)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('second')
  expect(orders).toEqual(Array(3).fill('second,first'))
  expect(calls).toEqual(['first', 'second'])
  expect((await bus.history(id)).slice(0, 3)).toEqual([
    'STEP second called COMPLETED',
    'STEP first called COMPLETED',
    'STEP second won COMPLETED',
  ])
})

test('P-06 the same name used again in a loop is told apart by its occurrence', async () => {
  const keys: string[] = []
  const Loop = defineProcess(domain(), 'Loop', {
    state: anything,
    async execute(ctx) {
      const results: number[] = []
      for (let turn = 0; turn < 3; turn += 1) {
        const done = await ctx.step('turn', ({ idempotencyKey }) => {
          keys.push(idempotencyKey)
          return turn
        })
        results.push(done)
        await ctx.sleep('pause', 1)
      }
      return results
    },
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, {})
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([0, 1, 2])
  expect(keys).toEqual([`${id}/turn`, `${id}/turn#2`, `${id}/turn#3`])
})

test('P-06 parallel steps really run at the same time', async () => {
  let running = 0
  const all = gate()
  const Both = defineProcess(domain(), 'Both', {
    state: anything,
    execute: async (ctx) => {
      const run = async () => {
        running += 1
        if (running === 3) all.open()
        await all.passed
      }
      await Promise.all(['a', 'b', 'c'].map((name) => ctx.step(name, run)))
    },
  })
  expect((await (await bus.hf.start(Both, {})).get()).status).toBe('COMPLETED')
})

test.each([
  ['permanent', PermanentError, 'WAITING_FOR_TSQ', []],
  ['business', BusinessError, 'COMPENSATED', ['the other']],
] as const)(
  'P-07 a %s failure waits for the step beside it, whose result is recorded',
  async (_, Kind, status, expected) => {
    const slow = gate()
    const failed = gate()
    const undone: unknown[] = []
    const Pair = defineProcess(domain(), 'Pair', {
      state: anything,
      execute: async (ctx) =>
        void (await Promise.all([
          ctx.step('slow', () => slow.passed.then(() => 'the other'), { compensate: (result) => undone.push(result) }),
          ctx.step('fails', () => {
            failed.open()
            throw new Kind('no')
          }),
        ])),
    })
    const starting = bus.hf.start(Pair, {})
    await failed.passed
    await waitFor('the failure is on record', async () => {
      const rows = await bus.sql(
        `select 1 from holdfast.process_history join holdfast.process_detail on id = process_id
      where type = $1 and process_history.name = 'fails'`,
        [Pair.name],
      )
      return rows.length === 1
    })
    slow.open()
    const { id } = await starting
    await bus.rests(id, status)
    expect((await bus.history(id)).slice(0, 2)).toEqual(['STEP fails FAILED', 'STEP slow COMPLETED'])
    expect(undone).toEqual(expected)
  },
)

test('P-07 a retry of one begins while its sibling still runs', async () => {
  const slow = gate()
  let calls = 0
  const Pair = defineProcess(domain(), 'Pair', {
    state: anything,
    execute: async (ctx) =>
      Promise.all([
        ctx.step('slow', () => slow.passed.then(() => 'slow')),
        ctx.step(
          'again',
          () => {
            calls += 1
            if (calls === 1) throw new TransientError('busy')
            return 'again'
          },
          { retry: { maxAttempts: 2, delay: 1 } },
        ),
      ]),
  })
  const starting = bus.hf.start(Pair, {})
  await waitFor('it was called again', () => calls === 2)
  slow.open()
  const { id, status } = await (await starting).get()
  expect(status).toBe('COMPLETED')
  expect((await bus.process(id)).result).toEqual(['slow', 'again'])
})

test('P-06 a sleep that races a running step wins when its time is over', async () => {
  const slow = gate()
  const after: string[] = []
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    async execute(ctx) {
      const winner = await Promise.race([
        ctx.step('slow', () => slow.passed.then(() => 'step')),
        ctx.sleep('timer', 20).then(() => 'timer'),
      ])
      await ctx.step('after', () => after.push(winner))
      await ctx.sleep('replay it', 1)
      return winner
    },
  })
  await bus.runProcesses(Race)
  const starting = bus.hf.start(Race, {})
  await waitFor('the timer won', () => after.length === 1)
  slow.open()
  const { id } = await starting
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('timer')
  expect(after).toEqual(['timer'])
})

test('P-06 the loser of a race is recorded before the process suspends, and the replay has the same winner', async () => {
  const slow = gate()
  const winners: string[] = []
  let losers = 0
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    async execute(ctx) {
      const winner = await Promise.race([
        ctx.step('slow', async () => {
          losers += 1
          await slow.passed
          return 'slow'
        }),
        ctx.step('fast', () => 'fast'),
      ])
      slow.open()
      winners.push(winner)
      await ctx.sleep('replay it', '1h')
      return winner
    },
  })
  await bus.runProcesses(Race)
  const { id } = await bus.hf.start(Race, {})
  await bus.wakeUp(id)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('fast')
  expect([winners, losers]).toEqual([['fast', 'fast'], 1])
  expect(await bus.history(id)).toContain('STEP slow COMPLETED')
})

test('P-06 hundreds of parallel steps: each called once, all settled alike on replay', async () => {
  let calls = 0
  const sums: string[] = []
  const Many = defineProcess(domain(), 'Many', {
    state: anything,
    async execute(ctx) {
      const order: number[] = []
      await Promise.all(
        Array.from({ length: 300 }, (_, n) =>
          ctx
            .step(`s${n}`, async () => {
              calls += 1
              for (let turn = n % 7; turn > 0; turn -= 1) await new Promise((resolve) => setImmediate(resolve))
              return n
            })
            .then((value) => order.push(value)),
        ),
      )
      sums.push(order.join())
      await ctx.sleep('replay it', '1h')
    },
  })
  await bus.runProcesses(Many)
  const { id } = await bus.hf.start(Many, {})
  await bus.wakeUp(id)
  await bus.rests(id, 'COMPLETED')
  expect(calls).toBe(300)
  expect(sums).toHaveLength(2)
  expect(sums[1]).toBe(sums[0])
  expect(sums[0]).not.toBe(Array.from({ length: 300 }, (_, n) => n).join())
})
