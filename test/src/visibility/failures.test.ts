import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import {
  BusinessError,
  defineCommand,
  defineDispatch,
  defineManager,
  defineProcess,
  defineWorkflow,
  PermanentError,
  processTarget,
  stepCommand,
  TransientError,
} from 'holdfast'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { recording } from './recording.js'

const told = recording()
let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ logger: told.logger, metrics: told.metrics })
})
afterAll(() => bus.close())

const domain = numbered('seen')
const by = { actor: 'ann', reason: 'a test' }
const stack = expect.stringContaining('failures.test.ts')
const levels = (id: string) => told.about(id).map(({ level, event, code, attempt }) => [level, event, code, attempt])

test('K-21 a command: each failed attempt is a warning, the last one an error with its stack, once', async () => {
  const name = domain()
  const Pay = defineCommand(name, 'Pay', { retry: { maxAttempts: 2, delays: ['1ms'] } })
  const worker = await bus.work(Pay, () => {
    throw new TransientError('the bank is closed', { code: 'CLOSED' })
  })
  const { id } = await bus.hf.send(Pay, {})
  const [line] = await waitFor('it needs a person', () => {
    const found = told.about(id).filter(({ event }) => event === 'needs_person')
    return found.length > 0 ? found : undefined
  })
  await worker.stop()
  expect(levels(id)).toEqual([
    ['warn', 'attempt_failed', 'CLOSED', 1],
    ['warn', 'attempt_failed', 'CLOSED', 2],
    ['error', 'needs_person', 'CLOSED', 2],
  ])
  expect(line).toMatchObject({ model: 'commands', domain: name, type: 'Pay', error: 'the bank is closed', stack })
  expect(told.count(`attempts_failed commands ${name} Pay`)).toBe(2)
  expect(told.count(`needs_person commands ${name} Pay`)).toBe(1)
  expect(told.count(`started commands ${name} Pay`)).toBe(1)
  expect(told.observed(`run_milliseconds commands ${name} Pay`)).toHaveLength(2)
  expect(told.observed(`queue_milliseconds commands ${name} Pay`)).toHaveLength(1)
  const [troubled] = (await bus.hf.trouble.list({ model: 'commands', domain: name })).items
  expect(troubled).toMatchObject({ code: 'CLOSED', stack })
})

test('K-21 P-11 a response from SQL that no process takes is a warning, counted, and in the audit trail', async () => {
  const name = domain()
  const Payment = defineProcess(name, 'Payment', {
    state: z.object({}),
    responses: { approved: { data: z.number(), apply: () => undefined } },
    execute: async () => undefined,
  })
  const worker = await bus.runProcesses(Payment)
  await bus.sql("select holdfast.respond($1, 'Payment', 'R-TYPO', 'approved', '1')", [name])
  // The process could have been started in a transaction that has not committed yet: it is looked up for a minute.
  await bus.sql(
    "update holdfast.process_inbox set created_at = created_at - interval '61 s' where process_ref = 'R-TYPO'",
  )
  const subject = { name: `${name}/Payment R-TYPO` }
  await waitFor('it is refused', async () => (await bus.hf.auditTrail(subject)).length > 0)
  await worker.stop()
  expect(await bus.hf.auditTrail(subject)).toMatchObject([
    { event: 'RESPONSE_REFUSED', detail: { response: 'approved', data: 1, code: 'HF_NOT_FOUND' } },
  ])
  expect(told.lines.find(({ response }) => response === 'approved')).toMatchObject({
    level: 'warn',
    model: 'processes',
    domain: name,
    type: 'Payment',
    process: 'R-TYPO',
    code: 'HF_NOT_FOUND',
  })
  expect(told.count(`responses_refused processes ${name} Payment`)).toBe(1)
})

test('K-21 a command: ends are counted by how they ended, also in a transaction of the handler', async () => {
  const name = domain()
  const Do = defineCommand(name, 'Do', { data: z.string() })
  const worker = await bus.work(Do, (how, ctx) => {
    if (how === 'no') throw new BusinessError('no')
    return how === 'tx' ? ctx.transaction(async () => undefined) : undefined
  })
  const ids = (await bus.hf.sendMany(Do, [{ data: 'yes' }, { data: 'tx' }, { data: 'no' }])).map(({ id }) => id)
  await Promise.allSettled(ids.map((id) => bus.hf.command(Do, id).result()))
  await worker.stop()
  expect(told.count(`completed commands ${name} Do`)).toBe(2)
  expect(told.count(`failed commands ${name} Do`)).toBe(1)
  expect(told.observed(`total_milliseconds commands ${name} Do`)).toHaveLength(3)
  expect(told.about(ids[2] ?? '').map(({ level }) => level)).toEqual(['warn'])
})

test('K-21 a process: attempts, troubleshooting with step, key and stack, and nothing again on a replay', async () => {
  const name = domain()
  const Payment = defineProcess(name, 'Payment', {
    state: z.object({}),
    async execute(ctx) {
      await ctx.step(
        'reserve',
        ({ attempt }) => {
          if (attempt === 1) throw new TransientError('busy', { code: 'BUSY' })
        },
        { retry: { maxAttempts: 2, delay: '1ms' } },
      )
      await ctx.step('book', () => {
        throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
      })
    },
  })
  const worker = await bus.runProcesses(Payment)
  const { id } = await bus.hf.start(Payment, {}, { key: 'PAY-1' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await waitFor('it is told', () => told.about(id).some(({ event }) => event === 'needs_person'))
  expect(levels(id)).toEqual([
    ['warn', 'attempt_failed', 'BUSY', 1],
    ['warn', 'attempt_failed', 'NO_ACCOUNT', 1],
    ['error', 'needs_person', 'PERMANENT_FAILURE', 1],
  ])
  expect(told.about(id).at(-1)).toMatchObject({ domain: name, type: 'Payment', key: 'PAY-1', step: 'book', stack })
  const [troubled] = (await bus.hf.trouble.list({ model: 'processes', domain: name })).items
  expect(troubled).toMatchObject({ code: 'NO_ACCOUNT', stack })
  await bus.hf.process(Payment, id).retry(by)
  await waitFor('it failed again', () => told.count(`needs_person processes ${name} Payment`) === 2)
  // The replay met `reserve` again, and reported nothing of it.
  expect(told.about(id).filter(({ step }) => step === 'reserve')).toHaveLength(1)
  expect(told.count(`started processes ${name} Payment`)).toBe(1)
  await worker.stop()
})

test('K-21 a process: ends are counted, failed compensations need a person', async () => {
  const name = domain()
  const state = z.object({ how: z.string() })
  const Payment = defineProcess(name, 'Payment', {
    state,
    async execute(ctx, { how }) {
      await ctx.step('book', () => 1, {
        compensate() {
          if (how === 'stuck') throw new Error('cannot undo')
        },
      })
      if (how !== 'ok') throw new BusinessError('declined', { code: 'DECLINED' })
    },
  })
  const worker = await bus.runProcesses(Payment)
  await bus.hf.start(Payment, { how: 'ok' })
  await bus.hf.start(Payment, { how: 'undone' })
  const { id } = await bus.hf.start(Payment, { how: 'stuck' })
  await waitFor('the compensation is tried again', async () => {
    const resting = await bus.sql(
      'select from holdfast.process where id = $1 and leased_at is null and due_at > holdfast.now()',
      [id],
    )
    // Not while it executes: its lease would be over.
    if (resting.length > 0) await bus.moveClock(20_000)
    return told.about(id).some(({ event }) => event === 'needs_person')
  })
  await worker.stop()
  expect(told.count(`completed processes ${name} Payment`)).toBe(1)
  expect(told.count(`compensated processes ${name} Payment`)).toBe(1)
  expect(told.about(id).at(-1)).toMatchObject({ level: 'error', code: 'COMPENSATION_FAILED', step: 'book' })
  expect(told.about(id).filter(({ level }) => level === 'warn')).toHaveLength(3)
})

test('K-21 a step-based process: its command needs a person, and so does the process', async () => {
  const name = domain()
  const Debit = defineCommand(name, 'Debit')
  const Transfer = defineManager(name, 'Transfer', {
    state: z.object({}),
    firstStep: () => 'debit',
    command: () => stepCommand(Debit, {}),
    onReply: (state) => state,
    nextStep: () => null,
  })
  let broken = true
  bus.hf.register(Transfer)
  const worker = await bus.work(Debit, () => {
    if (broken) throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
  })
  const { id } = await bus.hf.start(Transfer, {})
  const [line] = await waitFor('the process needs a person', () =>
    told.about(id).length > 0 ? told.about(id) : undefined,
  )
  expect(line).toMatchObject({
    level: 'error',
    event: 'needs_person',
    model: 'processes',
    type: 'Transfer',
    step: 'debit',
  })
  expect(told.count(`needs_person commands ${name} Debit`)).toBe(1)
  broken = false
  const [troubled] = (await bus.hf.trouble.list({ model: 'commands', domain: name })).items
  await bus.hf.command(Debit, troubled?.id ?? '').retry(by)
  await waitFor('it has ended', () => told.count(`completed processes ${name} Transfer`) === 1)
  await worker.stop()
})

test('K-21 a workflow: attempts and the dead letter with its step and stack; ends are counted', async () => {
  const name = domain()
  bus.hf.handle(name, (input) => {
    if (input === 'bad') throw new TransientError('no', { code: 'NO' })
  })
  const Flow = defineWorkflow('test', name, { dlq: true })
    .step('a', name, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .build()
  const worker = await bus.hf.run({ domains: [], workflows: true, poll: '20ms' })
  await (await bus.hf.start(Flow, 'good')).result()
  const { id } = await bus.hf.start(Flow, 'bad')
  await waitFor('it is told', () => told.about(id).some(({ event }) => event === 'needs_person'))
  await worker.stop()
  expect(levels(id)).toEqual([
    ['warn', 'attempt_failed', 'NO', 1],
    ['warn', 'attempt_failed', 'NO', 2],
    ['error', 'needs_person', 'NO', undefined],
  ])
  expect(told.about(id).at(-1)).toMatchObject({ model: 'workflows', domain: 'test', type: name, step: 'a', stack })
  expect(told.count(`started workflows test ${name}`)).toBe(2)
  expect(told.count(`completed workflows test ${name}`)).toBe(1)
  const [troubled] = (await bus.hf.trouble.list({ id })).items
  expect(troubled).toMatchObject({ model: 'workflows', code: 'NO', stack })
})

test('K-21 a workflow: a call of unknown outcome that nothing undoes and no dead letter holds needs a person', async () => {
  const name = domain()
  bus.hf.handle(name, () => Promise.reject(new Error('socket hang up')))
  const Flow = defineWorkflow('test', name).step('pay', name, { nonIdempotent: true }).build()
  const worker = await bus.hf.run({ domains: [], workflows: true, poll: '20ms' })
  const { id } = await bus.hf.start(Flow, {})
  await waitFor('it is told', () => told.about(id).some(({ event }) => event === 'needs_person'))
  await worker.stop()
  expect(told.about(id).at(-1)).toMatchObject({ model: 'workflows', step: 'pay', code: 'OUTCOME_UNKNOWN' })
})

test('K-21 dispatch: a dead letter is an error that names its item', async () => {
  const name = domain()
  const Pay = defineProcess(name, 'Pay', { state: z.object({ n: z.number() }), execute: async () => undefined })
  const Settlement = defineDispatch(name, 'Items', {
    target: processTarget(Pay),
    settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1 },
  })
  bus.hf.register(Pay)
  bus.hf.register(Settlement)
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: new Date(0) })
  await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Settlement.name])
  const worker = await bus.hf.run({ domains: [name], poll: '20ms' })
  await waitFor('it is told', () => told.about('PAY-1').length > 0)
  await worker.stop()
  expect(told.about('PAY-1')).toMatchObject([
    {
      level: 'error',
      event: 'needs_person',
      model: 'dispatch',
      domain: Settlement.domain,
      type: Settlement.type,
      code: 'CONTEXT_MISSING',
    },
  ])
})

test('K-21 gauges say how much needs a person, and for how long', async () => {
  const name = domain()
  const Pay = defineCommand(name, 'Pay')
  const first = await bus.work(Pay, () => {
    throw new PermanentError('no')
  })
  const { id } = await bus.hf.send(Pay, {})
  await waitFor('it needs a person', () => told.count(`needs_person commands ${name} Pay`) === 1)
  await first.stop()
  await bus.moveClock(90_000)
  const second = await bus.hf.run({ domains: [name], poll: '20ms' })
  await waitFor('it is measured', () => told.gauges.get(`needing_person commands ${name} Pay`) === 1)
  expect(told.gauges.get(`oldest_needing_person_seconds commands ${name} Pay`)).toBeGreaterThanOrEqual(90)
  await second.stop()
  await bus.hf.command(Pay, id).cancel(by)
})

test('K-21 labels of metrics never hold an id', () => {
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}/
  expect(told.labels.length).toBeGreaterThan(0)
  expect(told.labels.filter((labels) => uuid.test(JSON.stringify(labels)))).toEqual([])
})

test('K-21 a workflow: how long its steps waited, how long handlers ran, and how long it took in all', async () => {
  const name = domain()
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: ['1ms'] })
    .then('b', name)
    .build()
  bus.hf.register(Flow)
  bus.hf.handle(name, (_, { stepName, attempt }) => {
    if (stepName === 'a' && attempt === 1) throw new TransientError('not yet')
  })
  const worker = await bus.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(Flow)
  await bus.hf.workflow(id).result()
  await waitFor('its end is told', () => told.observed(`total_milliseconds workflows test ${name}`).length > 0)
  await worker.stop()
  expect(told.observed(`run_milliseconds workflows test ${name}`)).toHaveLength(3)
  expect(told.observed(`queue_milliseconds workflows test ${name}`)).toHaveLength(2)
  const [total = -1] = told.observed(`total_milliseconds workflows test ${name}`)
  expect(total).toBeGreaterThan(0)
  expect(total).toBeLessThan(120_000)
})

test('K-21 work that operators end is counted like work that ends by itself', async () => {
  const name = domain()
  const Pay = defineCommand(name, 'Pay', { data: z.string() })
  const { id: queued } = await bus.hf.send(Pay, 'queued')
  await bus.hf.command(Pay, queued).cancel(by)
  expect(told.count(`cancelled commands ${name} Pay`)).toBe(1)
  const worker = await bus.work(Pay, () => {
    throw new PermanentError('no such account')
  })
  const ids = [(await bus.hf.send(Pay, 'a')).id, (await bus.hf.send(Pay, 'b')).id, (await bus.hf.send(Pay, 'c')).id]
  await waitFor(
    'they need a person',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: name })) === 3,
  )
  await worker.stop()
  await bus.hf.command(Pay, ids[0] ?? '').complete(by)
  await bus.hf.trouble.cancel(ids, by)
  expect(told.count(`completed commands ${name} Pay`)).toBe(1)
  expect(told.count(`cancelled commands ${name} Pay`)).toBe(3)

  const Stuck = defineProcess(name, 'Stuck', { state: z.any(), execute: (ctx) => ctx.wait('for ever', () => false) })
  const { id } = await bus.hf.start(Stuck, {}, { immediate: false })
  await bus.hf.process(Stuck, id).complete(by)
  expect(told.count(`completed processes ${name} Stuck`)).toBe(1)
})

test('K-21 K-22 a process manager: its start is counted, and it is known whether a live worker has it', async () => {
  const name = domain()
  const Do = defineCommand(name, 'Do', { data: z.any() })
  const Managed = defineManager(name, 'Managed', {
    state: z.any(),
    firstStep: () => 'only',
    command: () => stepCommand(Do, 1),
    onReply: (state) => state,
    nextStep: () => null,
  })
  const missing = () => told.lines.filter(({ event, type }) => event === 'no_live_worker' && type === `${name}/Managed`)
  const { id } = await bus.hf.start(Managed, {})
  expect(told.count(`started processes ${name} Managed`)).toBe(1)
  await waitFor('nobody has it', () => missing().length === 1)
  await expect(bus.hf.process(Managed, id).result({ timeout: '50ms' })).rejects.toThrow(/no live worker has/)
  bus.hf.register(Managed)
  const worker = await bus.hf.run({ domains: [name], poll: '20ms' })
  await waitFor('its presence is noted', async () => {
    const [row] = await bus.sql<{ noted: boolean }>(
      'select exists (select from holdfast.worker_definition where name = $1) as noted',
      [`${name}/Managed`],
    )
    return row?.noted
  })
  const waits = await bus.hf
    .process(Managed, id)
    .result({ timeout: '50ms' })
    .catch((error: Error) => error.message)
  expect(waits).not.toMatch(/no live worker has .*Managed/)
  await worker.stop()
})
