// Completing a process whose compensation failed says that it was undone by hand: the process goes on undoing and never ends as completed.

import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { defineManager } from './managers/define.js'
import { stepCommand } from './managers/step-command.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, work, get, until } = await openOperations()
afterAll(() => bus.close())

/** Two reservations, and a payment that the bank refuses. Compensations that are in `failing` fail. */
function refusedPayment(domain: string, { attempts = 1 } = {}) {
  const undone: string[] = []
  const failing = new Set(['hold'])
  const compensation = (name: string) => ({
    compensateRetry: { maxAttempts: attempts, delay: '1h' as const },
    compensate: () => {
      undone.push(name)
      if (failing.has(name)) throw new PermanentError(`cannot release ${name}`, { code: 'NO_RELEASE' })
    },
  })
  const Payment = defineProcess(domain, 'Payment', {
    state: z.object({ mode: z.string().default('refuse') }),
    async execute(ctx, { mode }) {
      await ctx.step('first', () => 1, compensation('first'))
      await ctx.step('hold', () => 2, compensation('hold'))
      await ctx.step('last', () => 3, compensation('last'))
      if (mode === 'wait') await ctx.wait('approval', () => false)
      await ctx.step('pay', () => {
        throw new BusinessError('no money', { code: 'NO_MONEY' })
      })
      return 'paid'
    },
  })
  bus.hf.register(Payment)
  const stuck = async () => {
    await work(domain)
    const { id } = await bus.hf.start(Payment, {})
    await until(Payment, id, 'WAITING_FOR_TSQ')
    return id
  }
  return { Payment, undone, failing, stuck }
}

const acts = {
  'handle.complete': (process: ReturnType<typeof bus.hf.process>) => process.complete(by),
  'handle.complete of the step': (process: ReturnType<typeof bus.hf.process>) =>
    process.complete(by, undefined, { step: 'hold' }),
  'trouble.complete': (process: ReturnType<typeof bus.hf.process>) => bus.hf.trouble.complete([process.id], by),
  'trouble.skip': (process: ReturnType<typeof bus.hf.process>) => bus.hf.trouble.skip([process.id], by),
}

test.each(Object.entries(acts))(
  'P-14 P-16 %s of a failed compensation: it counts as done, and the process ends COMPENSATED',
  async (name, act) => {
    const { Payment, undone, stuck } = refusedPayment(`undone-${Object.keys(acts).indexOf(name)}`)
    const id = await stuck()
    const [trouble] = (await bus.hf.trouble.list({ id })).items
    expect(trouble).toMatchObject({ step: 'hold', compensating: true, can: ['retry', 'complete', 'cancel', 'skip'] })
    await act(bus.hf.process(Payment, id))
    await until(Payment, id, 'COMPENSATED')
    expect(await get(Payment, id)).toMatchObject({ error: { code: 'NO_MONEY' }, result: null })
    expect(undone).toEqual(['last', 'hold', 'first'])
    await expect(bus.hf.process(Payment, id).result()).rejects.toMatchObject({ code: 'HF_NOT_COMPLETED' })
    const said = (await bus.hf.process(Payment, id).history()).find(({ event }) => event === 'TSQ_RESOLVE')
    expect(said).toMatchObject({
      ...by,
      after: { compensations: ['hold'], outcome: name === 'trouble.skip' ? 'skipped' : 'done' },
    })
    expect(await bus.hf.trouble.count({ id })).toBe(0)
  },
)

test('P-16 a result or a state for a failed compensation is refused, and changes nothing', async () => {
  const { Payment, stuck } = refusedPayment('undone-result')
  const id = await stuck()
  const process = bus.hf.process(Payment, id)
  const calls = [
    () => process.complete(by, 'paid'),
    () => process.complete(by, undefined, { state: { paid: true } }),
    () => process.complete(by, 'released', { step: 'hold' }),
  ]
  for (const call of calls) {
    await expect(call()).rejects.toMatchObject({
      code: 'HF_CANNOT_COMPLETE',
      message: expect.stringContaining('undone by hand'),
    })
  }
  expect(await bus.hf.trouble.complete([id], by, { result: 'paid' })).toMatchObject([
    { outcome: 'refused', code: 'HF_CANNOT_COMPLETE' },
  ])
  expect(await get(Payment, id)).toMatchObject({ status: 'WAITING_FOR_TSQ', error: { code: 'COMPENSATION_FAILED' } })
})

test('P-16 of two failed compensations the one that is named counts as done; the other still needs a person', async () => {
  const { Payment, failing, undone, stuck } = refusedPayment('undone-two')
  failing.add('first')
  const id = await stuck()
  await bus.hf.process(Payment, id).complete(by, undefined, { step: 'hold' })
  await waitFor('the other one is left', async () => {
    const [trouble] = (await bus.hf.trouble.list({ id })).items
    return trouble?.step === 'first'
  })
  failing.delete('first')
  await bus.hf.process(Payment, id).retry(by)
  await until(Payment, id, 'COMPENSATED')
  expect(undone).toEqual(['last', 'hold', 'first', 'first'])
})

test('P-16 a cancelled process whose compensation failed ends CANCELLED once it was undone by hand', async () => {
  const { Payment } = refusedPayment('undone-cancelled')
  await work('undone-cancelled')
  const { id } = await bus.hf.start(Payment, { mode: 'wait' })
  await until(Payment, id, 'WAITING_FOR_ASYNC')
  await bus.hf.process(Payment, id).cancel(by)
  await until(Payment, id, 'WAITING_FOR_TSQ')
  await bus.hf.process(Payment, id).complete(by)
  await until(Payment, id, 'CANCELLED')
})

test('P-16 a process that is being compensated and needs nobody cannot be completed', async () => {
  const { Payment } = refusedPayment('undone-running', { attempts: 2 })
  await work('undone-running')
  const { id } = await bus.hf.start(Payment, {})
  await until(Payment, id, 'COMPENSATING')
  await expect(bus.hf.process(Payment, id).complete(by)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    details: { status: 'COMPENSATING' },
  })
})

test('P-16 a process that needs a person for something else while it is compensated is not completed', async () => {
  const { Payment, stuck } = refusedPayment('undone-else')
  const id = await stuck()
  // As after a deploy whose code does not fit: no compensation of it has failed.
  await bus.sql(
    `insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status)
     select process_id, generation, max(seq) + 1, max(epoch), max(at), 'RETRY', 'RETRY', 1, 'COMPLETED'
     from holdfast.process_history where process_id = $1 group by process_id, generation`,
    [id],
  )
  const [trouble] = (await bus.hf.trouble.list({ id })).items
  expect(trouble?.can).toEqual(['retry', 'cancel'])
  await expect(bus.hf.process(Payment, id).complete(by)).rejects.toMatchObject({ code: 'HF_CANNOT_COMPLETE' })
  expect(await bus.hf.trouble.skip([id], by)).toMatchObject([{ outcome: 'refused', code: 'HF_CANNOT_SKIP' }])
})

const Do = defineCommand('undone_commands', 'Do', { data: z.object({ what: z.string(), mode: z.string() }) })
const done: string[] = []
const Managed = defineManager('undone-managed', 'Managed', {
  state: z.object({ name: z.string(), undo: z.string() }),
  firstStep: () => 'first',
  command: (step, { name }) => stepCommand(Do, { what: `${name} ${step}`, mode: step === 'pay' ? 'refused' : '' }),
  onReply: (state) => state,
  nextStep: (step) => (step === 'first' ? 'hold' : step === 'hold' ? 'pay' : null),
  compensation: (step, { name, undo }) =>
    stepCommand(Do, { what: `${name} undo ${step}`, mode: step === 'hold' ? undo : '' }),
})

bus.hf.register(Managed)
await bus.work(Do, ({ what, mode }) => {
  done.push(what)
  if (mode === 'refused') throw new BusinessError('no', { code: 'NO_MONEY' })
  if (mode === 'broken') throw new PermanentError('no route', { code: 'NO_ROUTE' })
})
await work('undone-managed')

test.each([
  ['was refused', 'refused', 'COMPENSATION_FAILED', 'FAILED'],
  ['needs a person', 'broken', 'COMMAND_IN_TROUBLESHOOTING', 'CANCELLED'],
])(
  'M-04 P-16 complete of a manager whose compensating command %s: the next one is sent, and it ends COMPENSATED',
  async (_, undo, code, commandStatus) => {
    const { id } = await bus.hf.start(Managed, { name: undo, undo })
    await until(Managed, id, 'WAITING_FOR_TSQ')
    expect(await get(Managed, id)).toMatchObject({ error: { code } })
    await expect(bus.hf.process(Managed, id).complete(by, 'paid' as never)).rejects.toMatchObject({
      code: 'HF_CANNOT_COMPLETE',
    })
    await bus.hf.process(Managed, id).complete(by, undefined)
    await until(Managed, id, 'COMPENSATED')
    expect(await get(Managed, id)).toMatchObject({ error: { code: 'NO_MONEY' } })
    expect(done.filter((what) => what.startsWith(undo)).map((what) => what.slice(undo.length + 1))).toEqual([
      'first',
      'hold',
      'pay',
      'undo hold',
      'undo first',
    ])
    const compensating = (await bus.hf.commands.list({ correlationId: id })).items.find(
      ({ status }) => status === commandStatus,
    )
    expect(compensating).toBeDefined()
    expect(await bus.hf.trouble.count({ domain: 'undone_commands' })).toBe(0)
  },
)

test('M-03 P-16 a manager whose command needs a person cannot be retried, and says what can be done', async () => {
  const Stuck = defineManager('undone-stuck', 'Stuck', {
    state: empty,
    firstStep: () => 'pay',
    command: () => stepCommand(Broken, null),
    onReply: (state) => state,
    nextStep: () => null,
  })
  const Broken = defineCommand('undone_stuck', 'Broken')
  let broken = true
  await bus.work(Broken, () => {
    if (broken) throw new PermanentError('no route', { code: 'NO_ROUTE' })
  })
  bus.hf.register(Stuck)
  await work('undone-stuck')
  const { id } = await bus.hf.start(Stuck, {})
  await until(Stuck, id, 'WAITING_FOR_TSQ')
  const [command] = (await bus.hf.commands.list({ correlationId: id })).items
  const [trouble] = (await bus.hf.trouble.list({ id })).items
  expect(trouble?.can).toEqual(['complete', 'cancel'])
  const refusal = bus.hf.process(Stuck, id).retry(by)
  await expect(refusal).rejects.toMatchObject({ code: 'HF_CANNOT_RETRY', status: 409 })
  await expect(refusal).rejects.toThrow(`its command undone_stuck/Broken ${command?.id}`)
  expect(await bus.hf.trouble.retry([id], by)).toMatchObject([{ outcome: 'refused', code: 'HF_CANNOT_RETRY' }])
  expect((await bus.hf.process(Stuck, id).why()).text).toContain('retry, complete or cancel that command')
  broken = false
  await bus.hf.trouble.retry({ domain: 'undone_stuck' }, by)
  await until(Stuck, id, 'COMPLETED')
})
