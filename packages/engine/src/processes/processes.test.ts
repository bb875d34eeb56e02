import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import type { ProcessOf } from './reference.js'
import { type ProcessStatus, processStatuses } from './states.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const processes = () => bus.hf.processes
const empty = z.object({})

/** One process that can be brought into any status there is. */
function anyStatus(domain: string) {
  const release = new Set<() => void>()
  const Any = defineProcess(domain, 'Any', {
    state: z.object({ into: z.string(), hold: z.boolean().optional() }),
    async execute(ctx, { into, hold }) {
      const holding = () => (hold ? new Promise<void>((resolve) => release.add(resolve)) : undefined)
      await ctx.step('undoable', () => 'done', {
        compensate: into === 'COMPENSATING' ? () => failOrHold() : () => holding(),
      })
      async function failOrHold() {
        await holding()
        throw new Error('not undone')
      }
      switch (into) {
        case 'WAITING_FOR_ASYNC':
          return void (await ctx.wait('answer', () => false, { timeout: '2h' }))
        case 'WAITING_FOR_RETRY':
          return ctx.step('flaky', () => Promise.reject(new TransientError('busy')), {
            retry: { maxAttempts: 2, delay: '1h' },
          })
        case 'WAITING_FOR_TSQ':
          throw new PermanentError('broken', { code: 'BROKEN' })
        case 'COMPENSATED':
        case 'COMPENSATING':
          throw new BusinessError('declined', { code: 'DECLINED' })
        case 'FAILED':
          return void (await ctx.wait('answer', () => false, { timeout: '1ms', onTimeout: 'fail' }))
        case 'EXECUTING':
          return ctx.step('long', () => new Promise<void>((resolve) => release.add(resolve)), { timeout: '1h' })
      }
    },
  })
  const releaseAll = () => {
    for (const go of release) go()
  }
  return { Any, releaseAll }
}

test('P-12, P-21 every status is shown, listed and told apart', async () => {
  const { Any, releaseAll } = anyStatus('statuses')
  bus.hf.register(Any)
  const ids = new Map<ProcessStatus, string>()
  const resting = [
    'WAITING_FOR_ASYNC',
    'WAITING_FOR_RETRY',
    'WAITING_FOR_TSQ',
    'COMPENSATING',
    'COMPENSATED',
    'COMPLETED',
  ] as const
  for (const into of resting) {
    const { id, status } = await (await bus.hf.start(Any, { into })).get()
    expect(status).toBe(into)
    ids.set(into, id)
  }
  const cancelled = await bus.hf.start(Any, { into: 'WAITING_FOR_ASYNC' })
  const failed = await bus.hf.start(Any, { into: 'FAILED' })
  const executing = await bus.hf.start(Any, { into: 'EXECUTING' }, { immediate: false })
  await bus.hf.process(Any, cancelled.id).cancel(by, { compensate: true })
  const worker = await bus.hf.run({ domains: ['statuses'], poll: '20ms' })
  for (const [{ id }, status] of [
    [cancelled, 'CANCELLED'],
    [failed, 'FAILED'],
    [executing, 'EXECUTING'],
  ] as const) {
    await waitFor(`it is ${status}`, async () => (await bus.hf.process(Any, id).get()).status === status)
    ids.set(status, id)
  }
  worker.stopNow()
  const pending = await bus.hf.start(Any, { into: 'COMPLETED' }, { startAt: new Date(Date.now() + 86_400_000) })
  ids.set('PENDING', pending.id)
  for (const status of processStatuses.filter((one) => one !== 'WAITING_FOR_REPLY')) {
    const found = (await processes().list({ domain: 'statuses', type: 'Any', status })).items
    expect([status, found.map(({ id }) => id)]).toEqual([status, [ids.get(status)]])
    expect(found[0]?.status).toBe(status)
  }
  expect((await processes().list({ status: 'WAITING_FOR_REPLY' })).items).toEqual([])
  expect((await processes().list({ domain: 'statuses' })).items).toHaveLength(ids.size)
  releaseAll()
})

test('P-12 a process that a worker compensates is COMPENSATING, not EXECUTING', async () => {
  const { Any, releaseAll } = anyStatus('undoing')
  bus.hf.register(Any)
  await bus.hf.run({ domains: ['undoing'], poll: '20ms' })
  const { id } = await bus.hf.start(Any, { into: 'COMPENSATED', hold: true }, { immediate: false })
  const record = await waitFor('it is being undone', async () => {
    const found = await bus.hf.process(Any, id).get()
    return found.status === 'COMPENSATING' && found.leasedBy !== null ? found : undefined
  })
  expect(record.executingSince).toBeInstanceOf(Date)
  expect((await processes().list({ domain: 'undoing', status: 'COMPENSATING' })).items.map((one) => one.id)).toEqual([
    id,
  ])
  expect((await processes().list({ domain: 'undoing', status: 'EXECUTING' })).items).toEqual([])
  releaseAll()
  await waitFor('it is undone', async () => (await bus.hf.process(Any, id).get()).status === 'COMPENSATED')
})

test('P-21 a record shows key, status, state, deadline, attributes and times', async () => {
  const { Any } = anyStatus('shown')
  bus.hf.register(Any)
  const deadline = new Date(Date.now() + 86_400_000)
  const { id } = await bus.hf.start(
    Any,
    { into: 'WAITING_FOR_ASYNC' },
    { key: 'PAY-1', deadline, attributes: { country: 'CH', amount: 5, vip: true } },
  )
  const waiting = await bus.hf.process(Any, 'PAY-1').get()
  expect(waiting).toMatchObject({
    id,
    key: 'PAY-1',
    domain: 'shown',
    type: 'Any',
    version: 1,
    model: 'PROCESS_STEP',
    status: 'WAITING_FOR_ASYNC',
    state: { into: 'WAITING_FOR_ASYNC' },
    result: null,
    error: null,
    waitingFor: 'answer',
    deadline,
    nextRetryAt: null,
    queuedAt: null,
    leasedBy: null,
    executingSince: null,
    cancelling: false,
    paused: false,
    attributes: { country: 'CH', amount: 5, vip: true },
    parentId: null,
    batchId: null,
    endedAt: null,
  })
  const twoHours = (waiting.waitTimeoutAt?.getTime() ?? 0) - waiting.createdAt.getTime()
  expect(twoHours).toBeGreaterThanOrEqual(7_200_000)
  expect(waiting.dueAt).toEqual(waiting.waitTimeoutAt)
  const { id: retrying } = await bus.hf.start(Any, { into: 'WAITING_FOR_RETRY' })
  const { nextRetryAt, dueAt, waitingFor } = await bus.hf.process(Any, retrying).get()
  expect(nextRetryAt).toBeInstanceOf(Date)
  expect(dueAt).toEqual(nextRetryAt)
  expect(waitingFor).toBe('flaky')
  const { id: troubled } = await bus.hf.start(Any, { into: 'WAITING_FOR_TSQ' })
  expect(await bus.hf.process(Any, troubled).get()).toMatchObject({
    dueAt: null,
    error: { kind: 'PERMANENT', code: 'PERMANENT_FAILURE', message: 'BROKEN: broken' },
  })
  const { id: ended } = await bus.hf.start(Any, { into: 'COMPENSATED' })
  const undone = await bus.hf.process(Any, ended).get()
  expect(undone).toMatchObject({ error: { kind: 'BUSINESS', code: 'DECLINED' }, endedAt: expect.any(Date) })
  expect(undone.endedAt?.getTime()).toBeGreaterThanOrEqual(undone.createdAt.getTime())
})

test('P-21, K-18 what is paused says so', async () => {
  const { Any } = anyStatus('paused')
  bus.hf.register(Any)
  const { id } = await bus.hf.start(Any, { into: 'COMPLETED' }, { immediate: false })
  await bus.hf.pause({ definition: 'paused/Any' }, by)
  expect((await bus.hf.process(Any, id).get()).paused).toBe(true)
  await bus.hf.resume({ definition: 'paused/Any' }, by)
  await bus.hf.pause({ domain: 'paused' }, by)
  expect((await processes().list({ domain: 'paused' })).items.map(({ paused }) => paused)).toEqual([true])
  await bus.hf.resume({ domain: 'paused' }, by)
  expect((await bus.hf.process(Any, id).get()).paused).toBe(false)
})

test('P-09, P-21 before it first suspends a process shows the state that it was started with', async () => {
  const Dated = defineProcess('initial', 'Dated', {
    state: z.object({ at: z.date(), n: z.number().default(7) }),
    execute: async () => undefined,
  })
  const { id } = await bus.hf.start(Dated, { at: new Date(3) }, { immediate: false })
  expect((await bus.hf.process(Dated, id).get()).state).toEqual({ at: new Date(3), n: 7 })
})

test('P-21 lists are the newest first, and are narrowed by type, key, attributes, time, parent and batch', async () => {
  const A = defineProcess('lists', 'A', { state: empty, execute: async () => 'a' })
  const B = defineProcess('lists', 'B', {
    state: empty,
    execute: async (ctx) => void (await ctx.child('a', A, {}, { key: 'CHILD' })),
  })
  const start = async (n: number, definition: typeof A, options = {}) => {
    await bus.moveClock(1_000)
    // Ids that are not in the order of time: what counts is when it was created.
    return (await bus.hf.start(definition, {}, { id: randomUUID(), attributes: { n, odd: n % 2 === 1 }, ...options }))
      .id
  }
  const batchId = await bus.hf.batches.open('lists')
  const [one, two, three] = [
    await start(1, A),
    await start(2, A, { batch: batchId }),
    await start(3, A, { key: 'THREE' }),
  ]
  await bus.moveClock(1_000)
  const parent = await bus.hf.start(B, {})
  const child = (await bus.hf.process(A, 'CHILD').get()).id
  const ids = async (filter: Parameters<ReturnType<typeof processes>['list']>[0]) =>
    (await processes().list({ domain: 'lists', ...filter })).items.map(({ id }) => id)
  const inTime = (await ids({})).filter((id) => id !== child)
  expect(inTime).toEqual([parent.id, three, two, one])
  expect(await ids({ limit: 1, type: 'A', attributes: {} })).toEqual([three])
  expect(await ids({ type: 'B' })).toEqual([parent.id])
  expect((await processes().list({ type: 'B', domain: 'elsewhere' })).items.length).toBe(0)
  expect((await processes().list({ type: 'B' })).items.map(({ id }) => id)).toEqual([parent.id])
  expect(await ids({ key: 'THREE' })).toEqual([three])
  expect(await ids({ key: 'THREE', type: 'B' })).toEqual([])
  expect(await ids({ attributes: { odd: true } })).toEqual([three, one])
  expect(await ids({ attributes: { odd: true, n: 1 } })).toEqual([one])
  expect(await ids({ attributes: { odd: true }, status: 'FAILED' })).toEqual([])
  expect(await ids({ parent: parent.id })).toEqual([child])
  expect(await ids({ batch: batchId })).toEqual([two])
  expect(await ids({ batch: batchId, status: 'COMPLETED' })).toEqual([two])
  const { createdAt: since } = await bus.hf.process(A, two).get()
  const { createdAt: until } = await bus.hf.process(A, three).get()
  expect(await ids({ since, type: 'A', attributes: {} })).toEqual([three, two])
  expect(await ids({ since, until })).toEqual([two])
  expect(await ids({ status: 'COMPLETED', until })).toEqual([two, one])
  expect(await ids({ status: 'WAITING_FOR_ASYNC', until })).toEqual([])
  expect(await ids({ status: 'WAITING_FOR_ASYNC', since })).toEqual([parent.id])
})

test('P-21 an unknown process, or one of another type, is refused by get and result', async () => {
  const A = defineProcess('missing', 'A', { state: empty, execute: async () => 'a' })
  const B = defineProcess('missing', 'B', { state: empty, execute: async () => 'b' })
  const { id } = await bus.hf.start(A, {})
  const unknown = randomUUID()
  const looks = [
    (process: ProcessOf<never>, id: string): Promise<unknown> => bus.hf.process({ ...process }, id).get(),
    (process: ProcessOf<never>, id: string): Promise<unknown> => bus.hf.process({ ...process }, id).result(),
  ]
  for (const look of looks) {
    await expect(look(A, unknown)).rejects.toMatchObject({ code: 'HF_NOT_FOUND', details: { id: unknown } })
    await expect(look(A, 'NO-KEY')).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    await expect(look(B, id)).rejects.toMatchObject({
      code: 'HF_OTHER_TYPE',
      details: { actual: 'missing/A' },
    })
    await expect(look(A, '')).rejects.toMatchObject({ code: 'HF_INVALID_KEY' })
    await expect(look({ domain: 'missing', type: '' }, id)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  }
  expect((await bus.hf.process(A, id.toUpperCase()).get()).id).toBe(id)
  expect((await bus.hf.process({ domain: 'missing', type: 'A' }, id).get()).result).toBe('a')
})

test('P-21 an invalid filter is refused with an error of ours', async () => {
  const wrong: readonly [object, string][] = [
    [{ status: 'DONE' }, 'HF_INVALID_OPTION'],
    [{ limit: 0 }, 'HF_INVALID_OPTION'],
    [{ attributes: { a: { b: 1 } } }, 'HF_INVALID_OPTION'],
    [{ batch: 'PAY-1' }, 'HF_INVALID_ID'],
    [{ parent: 'PAY-1' }, 'HF_INVALID_ID'],
    [{ since: 'yesterday' }, 'HF_INVALID_OPTION'],
    [{ longerThan: 'long' }, 'HF_INVALID_DURATION'],
    [{ cursor: 'nonsense' }, 'HF_INVALID_OPTION'],
    [{ sttus: 'FAILED' }, 'HF_UNKNOWN_OPTION'],
  ]
  for (const [filter, code] of wrong) await expect(processes().list(filter)).rejects.toMatchObject({ code })
})

test('P-10 result awaits the end and is typed; an end without result says why; a wait that times out does not end the process', async () => {
  const Answer = defineProcess('results', 'Answer', {
    state: z.object({ how: z.enum(['well', 'badly', 'never', 'empty']) }),
    responses: { go: { data: z.date() } },
    async execute(ctx, { how }): Promise<{ at: Date } | undefined> {
      if (how === 'badly') throw new BusinessError('declined', { code: 'DECLINED' })
      if (how === 'empty') return undefined
      return { at: await ctx.event('go', 'go') }
    },
  })
  bus.hf.register(Answer)
  await bus.hf.run({ domains: ['results'], poll: '20ms' })
  const { id } = await bus.hf.start(Answer, { how: 'well' }, { key: 'WELL' })
  const awaited = bus.hf.process(Answer, 'WELL').result()
  await bus.hf.process(Answer, id).respond('go', new Date(9))
  const result = await awaited
  expectTypeOf(result).toEqualTypeOf<{ at: Date } | undefined>()
  expect(result).toEqual({ at: new Date(9) })
  const bad = await bus.hf.start(Answer, { how: 'badly' })
  await expect(bus.hf.process(Answer, bad.id).result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    message: `process results/Answer ${bad.id} ended COMPENSATED with DECLINED: declined`,
  })
  const never = await bus.hf.start(Answer, { how: 'never' })
  const { waitTimeoutAt: timeout } = await bus.hf.process(Answer, never.id).get()
  await expect(bus.hf.process(Answer, never.id).result({ timeout: '20ms' })).rejects.toMatchObject({
    code: 'HF_RESULT_TIMEOUT',
    message: expect.stringMatching(
      `^process results/Answer ${never.id} did not end within 20 ms: it is WAITING_FOR_ASYNC. It waits for go since .*, until ${timeout?.toISOString()} at the latest.$`,
    ),
  })
  const nothing = await bus.hf.start(Answer, { how: 'empty' })
  expect(await bus.hf.process(Answer, nothing.id).result()).toBeNull()
  await expect(bus.hf.process(Answer, id).result({ timout: 5 } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
  })
})
