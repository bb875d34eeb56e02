import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'
import { StepFailed } from './step-failed.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

let domains = 0
const childState = z.object({ n: z.number() })

/** A parent and a child in a domain of their own, and a worker for both. */
async function family<Result>(
  child: (ctx: ProcessContext, state: { n: number }) => Promise<Result>,
  parent: (ctx: ProcessContext, Child: ReturnType<typeof defineChild<Result>>) => Promise<unknown>,
) {
  domains += 1
  const domain = `children-${domains}`
  const Child = defineChild(domain, child)
  const Parent = defineProcess(domain, 'Parent', {
    state: z.any(),
    execute: async (ctx: ProcessContext) => parent(ctx, Child),
  })
  bus.hf.register(Child)
  await bus.runProcesses(Parent)
  const { id } = await bus.hf.start(Parent, {})
  const childOf = async () => {
    const [row] = await bus.sql<{ id: string }>('select id from holdfast.process_detail where parent_id = $1', [id])
    return row?.id ?? ''
  }
  return { id, childOf, Child, Parent }
}

function defineChild<Result>(domain: string, execute: (ctx: ProcessContext, state: { n: number }) => Promise<Result>) {
  return defineProcess(domain, 'Child', {
    state: childState,
    execute: async (ctx: ProcessContext, state) => execute(ctx, state),
  })
}

const never = async (ctx: ProcessContext) => void (await ctx.wait('never', () => false, { timeout: '10h' }))

test('P-05 a child is started once, and its result is the result of the call', async () => {
  const { id, childOf } = await family(
    async (ctx, state) => {
      await ctx.sleep('a while', 1)
      return { at: new Date(state.n), twice: state.n * 2 }
    },
    async (ctx, Child) => {
      const { at, twice } = await ctx.child('pay', Child, { n: 21 })
      await ctx.sleep('replay it', 1)
      return [at.getTime(), twice]
    },
  )
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([21, 42])
  expect(await bus.history(id)).toEqual([
    'CHILD pay STARTED',
    'CHILD pay COMPLETED',
    'SLEEP replay it STARTED',
    'SLEEP replay it COMPLETED',
  ])
  await bus.rests(await childOf(), 'COMPLETED')
})

test('P-05 children started in a loop are told apart', async () => {
  const { id } = await family(
    async (_ctx, state) => state.n,
    async (ctx, Child) => {
      const results: number[] = []
      for (const n of [1, 2, 3]) results.push(await ctx.child('pay', Child, { n }))
      return [...results, ...(await Promise.all([4, 5].map((n) => ctx.child('both', Child, { n }))))]
    },
  )
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([1, 2, 3, 4, 5])
})

test.each([
  ['compensated', 'CHILD_COMPENSATED', () => Promise.reject(new BusinessError('declined'))],
  ['failed', 'CHILD_FAILED', (ctx: ProcessContext) => ctx.wait('w', () => false, { timeout: 1, onTimeout: 'fail' })],
] as const)('P-05 a %s child is a failure of the step, which may be caught', async (_, code, child) => {
  const { id } = await family(
    async (ctx) => void (await child(ctx)),
    async (ctx, Child) => {
      try {
        await ctx.child('pay', Child, { n: 1 }, { onFailure: 'throw' })
        return 'paid'
      } catch (error) {
        return error instanceof StepFailed ? error.code : 'another error'
      }
    },
  )
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(code)
})

test('P-05 a failed child that is not caught compensates the parent', async () => {
  const undone: unknown[] = []
  const { id } = await family(
    async () => {
      throw new BusinessError('declined')
    },
    async (ctx, Child) => {
      await ctx.step('book', () => 'booked', { compensate: (result) => undone.push(result) })
      await ctx.child('pay', Child, { n: 1 })
    },
  )
  expect((await bus.rests(id, 'COMPENSATED')).error_code).toBe('CHILD_COMPENSATED')
  expect(undone).toEqual(['booked'])
})

test('P-05 a child in troubleshooting keeps the parent waiting', async () => {
  let broken = true
  const { id, childOf } = await family(
    async (ctx) =>
      ctx.step('book', () => {
        if (broken) throw new PermanentError('no')
        return 'repaired'
      }),
    (ctx, Child) => ctx.child('pay', Child, { n: 1 }),
  )
  await waitFor('there is a child', childOf)
  const child = await childOf()
  await bus.rests(child, 'WAITING_FOR_TSQ')
  expect(await bus.rests(id, 'WAITING_FOR_ASYNC')).toMatchObject({ waiting_for: 'pay', due_at: null })
  broken = false
  await bus.retry(child)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('repaired')
})

test.each(['PLAIN', 'COMPENSATE'] as const)('P-05 cancelling the parent cancels its child: %s', async (mode) => {
  const undone: unknown[] = []
  const { id, childOf } = await family(
    async (ctx) => {
      await ctx.step('book', () => 'booked', { compensate: (result) => undone.push(result) })
      await never(ctx)
    },
    (ctx, Child) => ctx.child('pay', Child, { n: 1 }),
  )
  await waitFor('there is a child', childOf)
  const child = await childOf()
  await bus.rests(child, 'WAITING_FOR_ASYNC')
  await bus.cancel(id, mode)
  await bus.rests(id, 'CANCELLED')
  await bus.rests(child, 'CANCELLED')
  expect(undone).toEqual(mode === 'PLAIN' ? [] : ['booked'])
  const [entry] = (await bus.hf.auditTrail({ id: child })).filter(({ event }) => event === 'CANCEL_REQUESTED')
  expect(entry?.actor).toBe(`process ${id}`)
})

test('P-05 P-14 a parent that compensates cancels its child', async () => {
  const { id, childOf } = await family(never, async (ctx, Child) => {
    await Promise.all([
      ctx.child('pay', Child, { n: 1 }),
      ctx.step('fails', async () => {
        await waitFor('there is a child', childOfParent)
        throw new BusinessError('no')
      }),
    ])
    async function childOfParent() {
      const rows = await bus.sql('select 1 from holdfast.process_detail where parent_id = $1', [ctx.id])
      return rows.length > 0
    }
  })
  await bus.rests(id, 'COMPENSATED')
  await bus.rests(await childOf(), 'CANCELLED')
})

test('P-14 a child that completes while its parent begins to compensate is undone', async () => {
  const undone: unknown[] = []
  const Child = defineChild('children-quick', async () => 'paid')
  const Parent = defineProcess('children-undoing', 'Parent', {
    state: z.any(),
    async execute(ctx) {
      await ctx.step('first', () => 'first', { compensate: (result) => undone.push(result) })
      await Promise.all([
        ctx.child('pay', Child, { n: 1 }, { compensate: (result) => undone.push(result) }),
        ctx.step('fails', async () => {
          await waitFor('the child has ended', async () => {
            const text = 'select 1 from holdfast.process_detail where parent_id = $1 and ended_at is not null'
            return (await bus.sql(text, [ctx.id])).length > 0
          })
          throw new BusinessError('no')
        }),
      ])
    },
  })
  await bus.runProcesses(Child)
  // No worker hands the child's end over yet: the parent knows that it began, and not how it ended.
  const { id, status } = await (await bus.hf.start(Parent, {})).get()
  expect([status, undone]).toEqual(['COMPENSATING', []])
  expect(await bus.process(id)).toMatchObject({ waiting_for: 'pay', due_at: null })
  await bus.runProcesses(Parent)
  await bus.rests(id, 'COMPENSATED')
  expect(undone).toEqual(['paid', 'first'])
  expect((await bus.history(id)).slice(-4)).toEqual([
    'UNWIND FAILURE STARTED',
    'CHILD pay COMPLETED',
    'COMPENSATION pay COMPLETED',
    'COMPENSATION first COMPLETED',
  ])
})

test('P-05 a state that the child refuses is the failure of the parent’s call', async () => {
  const { id } = await family(never, (ctx, Child) => ctx.child('pay', Child, JSON.parse('{"n":"x"}')))
  const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_code).toBe('PERMANENT_FAILURE')
  expect(error_message).toContain('HF_INVALID_DATA')
})

test('P-05 a key that belongs to another process is refused, not waited for', async () => {
  const { id, Child } = await family(never, async (ctx, Kind) => {
    await ctx.wait('go on', () => true)
    await ctx.step(
      'take the key',
      async () => (await bus.hf.start(Kind, { n: 5 }, { key: 'TAKEN', immediate: false })).id,
    )
    await ctx.child('pay', Kind, { n: 1 }, { key: 'TAKEN' })
  })
  const { error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_message).toContain('HF_DUPLICATE_KEY')
  expect(error_message).toContain(Child.name)
})

test('P-05 a child that takes too long times out as its parent says', async () => {
  const { id } = await family(never, (ctx, Child) =>
    ctx.child('pay', Child, { n: 1 }, { timeout: 1, onTimeout: 'fail' }),
  )
  expect((await bus.rests(id, 'FAILED')).error_code).toBe('WAIT_TIMEOUT')
})
