import {
  gate,
  holdAt,
  numbered,
  openTestBus,
  runDispatchChecks,
  runDispatchCycle,
  type TestBus,
  waitFor,
} from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import type { ExecutionStart, ExecutionState, ExecutionTarget, StartOutcome } from './targets.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const itemType = numbered('remote')
const past = new Date('2020-01-01T00:00:00Z')
const Context = z.object({ n: z.number() })

/** An engine elsewhere: it remembers what it was told to start, and does what a test says. */
function engine() {
  const started: ExecutionStart<{ n: number }>[] = []
  const states = new Map<string, ExecutionState>()
  let startAs: (item: ExecutionStart<{ n: number }>) => StartOutcome = () => 'started'
  let answer: ((outcomes: StartOutcome[]) => unknown) | undefined
  let describing: ((ids: readonly string[]) => unknown) | undefined
  const target: ExecutionTarget<{ n: number }> = {
    name: 'elsewhere',
    async start(items) {
      const outcomes = items.map((item) => {
        const outcome = startAs(item)
        if (outcome === 'started') {
          started.push(item)
          states.set(item.executionId, { status: 'RUNNING' })
        }
        return outcome
      })
      // A test may have it answer anything.
      return (answer ? await answer(outcomes) : outcomes) as StartOutcome[]
    },
    async describe(ids) {
      if (describing) return describing(ids) as ExecutionState[]
      return ids.map((id) => states.get(id) ?? { status: 'NOT_FOUND' })
    },
  }
  return {
    target,
    started,
    states,
    startAs: (how: typeof startAs) => {
      startAs = how
    },
    answer: (how: typeof answer) => {
      answer = how
    },
    describing: (how: typeof describing) => {
      describing = how
    },
  }
}

function settlement(target: ExecutionTarget<{ n: number }>, config: DispatchSettings = {}) {
  return defineDispatch(itemType(), 'Items', {
    context: Context,
    target,
    callTimeout: 200,
    settings: { dispatchInterval: '5s', jitterWindow: 0, ...config },
  })
}

const items = (count: number, startAt = past) =>
  Array.from({ length: count }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt }))
const get = (Settlement: DispatchDefinition<never>, key: string) => bus.hf.item(Settlement, key).get()
/** What is READY again is due now. */
const hurry = ({ name: type }: DispatchDefinition<never>) =>
  bus.sql('update holdfast.dispatch_item set due_at = exec_time where item_type = $1 and due_at is not null', [type])
const goStale = ({ name: type }: DispatchDefinition<never>) =>
  bus.sql('update holdfast.dispatch_item set check_at = holdfast.now() where item_type = $1 and check_at is not null', [
    type,
  ])

test('D-05 items are started with their context, a deterministic id, and when they may start', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, { ...items(1)[0], initWorkflowId: 'init-0' } as never)
  await bus.hf.dispatch.configure(Settlement, { execWorkflowType: 'PaymentExec', execTaskQueue: 'exec' }, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(started).toMatchObject([
    {
      key: 'PAY-0',
      executionId: `exec:${Settlement.name}:PAY-0:0`,
      context: { n: 0 },
      contextVersion: 1,
      initWorkflowId: 'init-0',
      workflowType: 'PaymentExec',
      taskQueue: 'exec',
      startDelay: 0,
    },
  ])
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'DISPATCHED', executionId: started[0]?.executionId })
})

test('D-04 items are handed to a remote target at most one cycle ahead, whatever the buffer', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target, { preStartBuffer: '30m', dispatchInterval: '60s' })
  const [{ now } = { now: past }] = await bus.sql<{ now: Date }>('select holdfast.now() as now')
  await bus.hf.schedule(Settlement, [
    { key: 'soon', context: { n: 1 }, startAt: new Date(now.getTime() + 40_000) },
    { key: 'later', context: { n: 2 }, startAt: new Date(now.getTime() + 120_000) },
  ])
  await runDispatchCycle(bus.db, Settlement)
  expect(started.map(({ key }) => key)).toEqual(['soon'])
  expect(started[0]?.startAt.getTime()).toBe(now.getTime() + 40_000)
  expect(started[0]?.startDelay).toBeGreaterThan(0)
  expect(started[0]?.startDelay).toBeLessThanOrEqual(40_000)
})

test('D-07 each type, item and number of failures has an execution id of its own', async () => {
  const made = await bus.sql<{ id: string; type: string; item: string; failures: number; back: string | null }>(
    `select holdfast.execution_id(type, item, failures) as id, type, item, failures,
       holdfast.item_of_execution(type, holdfast.execution_id(type, item, failures)) as back
     from unnest(array['a', 'a-1', 'a-0', '1']) as type,
       unnest(array['PAY', 'PAY-1', 'PAY:1', 'PAY:1:0', ':', '1', E'two\nlines', 'a:PAY']) as item,
       unnest(array[0, 1, 10]) as failures`,
  )
  expect(new Set(made.map(({ id }) => id)).size).toBe(made.length)
  expect(made.filter(({ item, back }) => item !== back)).toEqual([])
})

test('D-07 an item after one failure and an item named like its second execution are both executed', async () => {
  const { target, started, states } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, { key: 'PAY', context: { n: 1 }, startAt: past })
  await runDispatchCycle(bus.db, Settlement)
  states.set(started[0]?.executionId ?? '', { status: 'FAILED' })
  await goStale(Settlement)
  await runDispatchChecks(bus.db, Settlement)
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 2 }, startAt: past })
  await hurry(Settlement)
  for (let cycle = 0; cycle < 3; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(started.map(({ context }) => context.n).sort((a, b) => a - b)).toEqual([1, 1, 2])
  expect(new Set(started.map(({ executionId }) => executionId)).size).toBe(3)
})

test('D-06 a start that was refused goes back to READY with its count raised and the same execution id; the others go on', async () => {
  const { target, started, startAs } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(4))
  startAs(({ key }) => (key === 'PAY-2' ? { failed: new BusinessError('no capacity', { code: 'FULL' }) } : 'started'))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 3, READY: 1 })
  expect(await get(Settlement, 'PAY-2')).toMatchObject({ retryCount: 1, lastError: 'FULL: no capacity' })
  startAs(() => 'alreadyStarted')
  await hurry(Settlement)
  await runDispatchCycle(bus.db, Settlement)
  // It had happened after all: that counts as started.
  expect(await get(Settlement, 'PAY-2')).toMatchObject({
    status: 'DISPATCHED',
    executionId: `exec:${Settlement.name}:PAY-2:0`,
  })
  expect(started.map(({ key }) => key)).toEqual(['PAY-0', 'PAY-1', 'PAY-3'])
})

test.each([
  ['throws', () => Promise.reject(new Error('read ECONNRESET')), 'read ECONNRESET'],
  ['hangs', () => new Promise(() => undefined), 'HF_TARGET_TIMEOUT'],
  ['answers nonsense', () => 42, 'HF_TARGET_INVALID_RESULT'],
  ['answers too little', (outcomes: StartOutcome[]) => outcomes.slice(1), 'HF_TARGET_INVALID_RESULT'],
  [
    'answers an error that proves nothing',
    (outcomes: StartOutcome[]) => outcomes.map(() => ({ failed: new Error('502 Bad Gateway') })),
    '502 Bad Gateway',
  ],
])(
  'D-13 K-20 a start at which the target %s stays CLAIMED and is described before it is started again',
  async (_how, how, error) => {
    const { target, started, states, answer, startAs } = engine()
    const Settlement = settlement(target, { maxDispatchRetries: 2 })
    await bus.hf.schedule(Settlement, items(3))
    // Two of them begin although nobody hears of it; the third never arrives.
    startAs(({ key }) => (key === 'PAY-2' ? { failed: new Error('not sent') } : 'started'))
    answer(how)
    await runDispatchCycle(bus.db, Settlement)
    expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 3, READY: 0 })
    expect((await get(Settlement, 'PAY-1')).lastError).toContain(error)
    answer(undefined)
    startAs(() => 'started')
    for (let cycle = 0; cycle < 3; cycle += 1) await runDispatchCycle(bus.db, Settlement)
    expect(started).toHaveLength(2)
    states.set(`exec:${Settlement.name}:PAY-1:0`, { status: 'COMPLETED' })
    await goStale(Settlement)
    await runDispatchChecks(bus.db, Settlement)
    expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'DISPATCHED', retryCount: 0 })
    expect(await get(Settlement, 'PAY-1')).toMatchObject({ status: 'COMPLETED', retryCount: 0 })
    const missing = await get(Settlement, 'PAY-2')
    expect(missing).toMatchObject({ status: 'READY', retryCount: 1 })
    expect(missing.lastError).toContain(`no execution was found for a claimed item; its start ended with`)
    await hurry(Settlement)
    await runDispatchCycle(bus.db, Settlement)
    expect(started.map(({ executionId }) => executionId)).toEqual(
      [0, 1, 2].map((n) => `exec:${Settlement.name}:PAY-${n}:0`),
    )
  },
)

test('D-13 a dispatcher that loses its lease during a start leaves its items CLAIMED', async () => {
  const { target, answer } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(1))
  answer(() => Promise.reject(new DOMException('the lease was lost', 'AbortError')))
  await runDispatchCycle(bus.db, Settlement)
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'CLAIMED', retryCount: 0 })
})

test('D-13 an invalid response about one item leaves that item to be described', async () => {
  const { target, answer } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(3))
  answer((outcomes) => outcomes.map((outcome, place) => (place === 1 ? null : outcome)))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2, CLAIMED: 1 })
})

test('D-08 a context that cannot be read fails its item, not the batch', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(4))
  const { name: type } = Settlement
  await bus.sql(`delete from holdfast.dispatch_context where item_type = $1 and item_id = 'PAY-0'`, [type])
  await bus.sql(
    `update holdfast.dispatch_context set notes = '{"/n": "nobody-knows"}' where item_type = $1 and item_id = 'PAY-1'`,
    [type],
  )
  await bus.sql(
    `update holdfast.dispatch_context set context = '{"n": "x"}', checked = false where item_type = $1 and item_id = 'PAY-2'`,
    [type],
  )
  await runDispatchCycle(bus.db, Settlement)
  expect(started.map(({ key }) => key)).toEqual(['PAY-3'])
  expect((await get(Settlement, 'PAY-0')).lastError).toContain('CONTEXT_MISSING')
  expect((await get(Settlement, 'PAY-1')).lastError).toContain('CONTEXT_BROKEN')
  expect((await get(Settlement, 'PAY-2')).lastError).toContain('CONTEXT_BROKEN')
  expect((await get(Settlement, 'PAY-2')).retryCount).toBe(1)
})

/** Claims items as a dispatcher would that dies before it has started them. */
async function claimAndDie(Settlement: DispatchDefinition<never>, most = 500): Promise<void> {
  await bus.sql(
    `with cycle as (
       update holdfast.dispatch_cycle set lease_epoch = lease_epoch + 1 where item_type = $1 returning lease_epoch
     ) select lease_epoch from cycle`,
    [Settlement.name],
  )
  const [cycle] = await bus.sql<{ lease_epoch: number }>(
    'select lease_epoch from holdfast.dispatch_cycle where item_type = $1',
    [Settlement.name],
  )
  const request = { type: Settlement.name, epoch: cycle?.lease_epoch, batch: crypto.randomUUID(), most }
  await bus.sql('select holdfast.claim_dispatch_items($1::jsonb, null, null, null)', [JSON.stringify(request)])
}

test('D-13 stale claims: not found is READY with its count raised, running is DISPATCHED, ended ends, unknown is left alone', async () => {
  const { target, states, startAs } = engine()
  const Settlement = settlement(target, { maxDispatchRetries: 5 })
  await bus.hf.schedule(Settlement, items(6))
  await claimAndDie(Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 6 })
  const state = (n: number, found: ExecutionState) => states.set(`exec:${Settlement.name}:PAY-${n}:0`, found)
  state(1, { status: 'RUNNING' })
  state(2, { status: 'COMPLETED' })
  state(3, { status: 'FAILED', error: new Error('out of memory') })
  state(4, { status: 'CANCELLED' })
  state(5, { status: 'UNKNOWN' })
  await runDispatchChecks(bus.db, Settlement)
  // Not stale yet: nobody looks.
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 6 })
  await goStale(Settlement)
  await runDispatchChecks(bus.db, Settlement)
  expect(await get(Settlement, 'PAY-0')).toMatchObject({
    status: 'READY',
    retryCount: 1,
    lastError: expect.stringContaining('EXECUTION_NOT_FOUND'),
  })
  expect(await get(Settlement, 'PAY-1')).toMatchObject({ status: 'DISPATCHED', retryCount: 0 })
  expect(await get(Settlement, 'PAY-2')).toMatchObject({ status: 'COMPLETED', context: undefined })
  expect(await get(Settlement, 'PAY-3')).toMatchObject({
    status: 'READY',
    retryCount: 1,
    lastError: 'INTERNAL_ERROR: out of memory',
  })
  expect(await get(Settlement, 'PAY-4')).toMatchObject({
    status: 'FAILED',
    lastError: 'CANCELLED: the execution ended CANCELLED',
  })
  expect(await get(Settlement, 'PAY-5')).toMatchObject({ status: 'CLAIMED', retryCount: 0 })
  expect(await bus.hf.auditTrail({ name: `${Settlement.name}/PAY-0` })).toMatchObject([
    { event: 'STALE_RECOVERED', before: { status: 'CLAIMED' }, after: { status: 'READY' } },
  ])
  // What failed as an execution gets a new id; what was never found keeps its own.
  startAs(() => 'started')
  await hurry(Settlement)
  await runDispatchCycle(bus.db, Settlement)
  await runDispatchCycle(bus.db, Settlement)
  expect((await get(Settlement, 'PAY-0')).executionId).toBe(`exec:${Settlement.name}:PAY-0:0`)
  expect((await get(Settlement, 'PAY-3')).executionId).toBe(`exec:${Settlement.name}:PAY-3:1`)
})

test('D-13 executions that go on are described now and then, a bounded number per call, in turn', async () => {
  const asked: (readonly string[])[] = []
  const { target, describing } = engine()
  const Settlement = settlement(target, { maxStaleRecoveryPerCycle: 2 })
  await bus.hf.schedule(Settlement, items(25))
  await runDispatchCycle(bus.db, Settlement)
  await goStale(Settlement)
  describing((ids) => {
    asked.push(ids)
    return ids.map(() => ({ status: 'RUNNING' }))
  })
  await runDispatchChecks(bus.db, Settlement)
  expect(Math.max(...asked.map((ids) => ids.length))).toBe(2)
  expect(new Set(asked.flat()).size).toBe(25)
  expect(asked.flat()).toHaveLength(25)
  describing((ids) => ids.map(() => ({ status: 'COMPLETED' })))
  await goStale(Settlement)
  await runDispatchChecks(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ COMPLETED: 25 })
})

test('D-13 a target whose describe hangs stops no release, and ends are noticed as fast as items are released', async () => {
  const { target, started, describing } = engine()
  const Hanging = settlement(target, { dispatchInterval: 0, staleClaimThreshold: 60, batchSize: 5 })
  await bus.hf.schedule(Hanging, items(5))
  await runDispatchCycle(bus.db, Hanging)
  await goStale(Hanging)
  const answering = gate()
  let asked = 0
  describing(async (ids) => {
    asked += 1
    await answering.passed
    return ids.map(() => ({ status: 'COMPLETED' }))
  })
  const slow = await openTestBus({ connectionString: bus.connectionString })
  const Patient = defineDispatch(Hanging.domain, Hanging.type, { context: Context, target, callTimeout: '10m' })
  slow.hf.register(Patient)
  const worker = await slow.hf.run({ domains: [Hanging.domain], poll: '20ms' })
  await waitFor('the target is asked', () => asked > 0)
  await bus.hf.schedule(
    Hanging,
    Array.from({ length: 45 }, (_, n) => ({ key: `LATER-${n}`, context: { n }, startAt: past })),
  )
  await waitFor('all are released beside the hanging call', () => started.length === 50)
  answering.open()
  await waitFor('all ends are noticed', async () => (await bus.hf.dispatch.depth(Hanging)).COMPLETED === 50)
  await worker.stop()
  await slow.close()
})

test('D-13 a target reports ends itself: each ends its item once, and reports of other executions change nothing', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(4))
  await runDispatchCycle(bus.db, Settlement)
  const id = (n: number, failures = 0) => `exec:${Settlement.name}:PAY-${n}:${failures}`
  const reports = [
    { executionId: id(0), status: 'COMPLETED' },
    { executionId: id(1), status: 'FAILED', error: new Error('out of memory') },
    { executionId: id(2), status: 'CANCELLED' },
    { executionId: id(3, 1), status: 'COMPLETED' },
    { executionId: `exec:${Settlement.name}:nobody:0`, status: 'COMPLETED' },
    { executionId: 'exec:other:PAY-3:0', status: 'COMPLETED' },
  ] as const
  const outcomes = async () => (await bus.hf.dispatch.reportEnd(Settlement, reports)).map(({ outcome }) => outcome)
  expect(await outcomes()).toEqual(['done', 'done', 'done', 'ended', 'unknown', 'unknown'])
  expect(await outcomes()).toEqual(['ended', 'ended', 'ended', 'ended', 'unknown', 'unknown'])
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'COMPLETED', context: undefined })
  expect(await get(Settlement, 'PAY-1')).toMatchObject({
    status: 'READY',
    retryCount: 1,
    lastError: 'INTERNAL_ERROR: out of memory',
  })
  expect(await get(Settlement, 'PAY-2')).toMatchObject({ status: 'FAILED' })
  expect(await get(Settlement, 'PAY-3')).toMatchObject({ status: 'DISPATCHED' })
  const [sql] = await bus.sql<{ outcome: string }>('select holdfast.report_end($1, $2, $3) as outcome', [
    Settlement.name,
    id(3),
    'COMPLETED',
  ])
  expect(sql).toEqual({ outcome: 'done' })
  expect(started).toHaveLength(4)
})

test('D-13 more than a thousand ends are reported by one call, each once, also those that it names twice', async () => {
  const { target } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(2))
  await runDispatchCycle(bus.db, Settlement)
  const id = (item: string) => `exec:${Settlement.name}:${item}:0`
  const strangers = Array.from({ length: 1_500 }, (_, n) => ({
    executionId: id(`X-${n}`),
    status: 'COMPLETED' as const,
  }))
  const failed = { executionId: id('PAY-0'), status: 'FAILED' as const }
  const reports = [failed, failed, ...strangers, { executionId: id('PAY-1'), status: 'COMPLETED' as const }]
  const answers = await bus.hf.dispatch.reportEnd(Settlement, reports)
  expect(answers.map(({ executionId }) => executionId)).toEqual(reports.map(({ executionId }) => executionId))
  expect([answers[0], answers[1], answers[2], answers.at(-1)]).toMatchObject([
    { outcome: 'done' },
    { outcome: 'done' },
    { outcome: 'unknown' },
    { outcome: 'done' },
  ])
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'READY', retryCount: 1 })
  expect(await get(Settlement, 'PAY-1')).toMatchObject({ status: 'COMPLETED' })
})

test('D-13 an end that is reported before its start is recorded counts', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(1))
  const held = holdAt('before dispatch.record-starts')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const cycle = runDispatchCycle(slow.db, Settlement)
  await held.reached
  const executionId = started[0]?.executionId ?? ''
  expect(await bus.hf.dispatch.reportEnd(Settlement, { executionId, status: 'COMPLETED' })).toEqual([
    { executionId, outcome: 'done' },
  ])
  held.release()
  await cycle
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'COMPLETED' })
  await slow.close()
})

test.each([
  ['throws', () => Promise.reject(new Error('unreachable'))],
  ['hangs', () => new Promise(() => undefined)],
  ['answers nonsense', () => [{ status: 'PERHAPS' }, null]],
])('D-13 a target whose describe %s changes nothing', async (_how, how) => {
  const { target, describing } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(2))
  await claimAndDie(Settlement)
  await goStale(Settlement)
  describing(how)
  await runDispatchChecks(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 2 })
  expect((await get(Settlement, 'PAY-0')).retryCount).toBe(0)
})

test('D-06 an item whose dispatcher dies again and again uses up its own attempts, and no other items become dead letters', async () => {
  const { target } = engine()
  const Settlement = settlement(target, { batchSize: 64, maxDispatchRetries: 5 })
  await bus.hf.schedule(Settlement, items(64))
  const claimed = async () =>
    (await bus.hf.dispatch.list({ domain: Settlement.domain, status: 'CLAIMED' })).items.map(({ key }) => key)
  for (let round = 0; round < 200; round += 1) {
    await hurry(Settlement)
    const { READY } = await bus.hf.dispatch.depth(Settlement)
    if (READY === 0) break
    await claimAndDie(Settlement, 64)
    const batch = await claimed()
    // It dies whenever the poison is among them; otherwise it lives to record them.
    if (!batch.includes('PAY-7')) {
      await bus.sql(
        `select holdfast.record_dispatch_starts($1, (select batch_id from holdfast.dispatch_item where item_type = $1 and item_id = $2), $3, '[]', $4)`,
        [Settlement.name, batch[0], batch, batch.length],
      )
      continue
    }
    await goStale(Settlement)
    await bus.sql(
      `select holdfast.apply_dispatch_checks($1, (
      select jsonb_agg(jsonb_build_object('id', item_id, 'execution', execution_id, 'found', 'NOT_FOUND'))
      from holdfast.dispatch_item where item_type = $1 and status = 'CLAIMED'))`,
      [Settlement.name],
    )
  }
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 63, DEAD_LETTER: 1 })
  expect(
    (await bus.hf.trouble.list({ model: 'dispatch', domain: Settlement.domain, type: Settlement.type })).items,
  ).toMatchObject([{ key: 'PAY-7', attempts: 5 }])
})

test('D-06 the kill switch stops a remote target as well: nothing more is handed over', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target, { batchSize: 2 })
  await bus.hf.schedule(Settlement, items(4))
  await runDispatchCycle(bus.db, Settlement)
  await bus.hf.dispatch.pause(Settlement, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(started).toHaveLength(2)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2, READY: 2 })
})

test('D-14 slots of a rate limit that passed before anything was handed over are not used', async () => {
  const { target } = engine()
  const Settlement = settlement(target)
  await bus.hf.schedule(Settlement, items(4))
  const [cycle] = await bus.sql<{ epoch: number; now: number }>(
    `select lease_epoch as epoch, extract(epoch from holdfast.now())::float8 * 1000 as now
     from holdfast.dispatch_cycle where item_type = $1`,
    [Settlement.name],
  )
  const now = cycle?.now ?? 0
  const request = { type: Settlement.name, epoch: cycle?.epoch, batch: crypto.randomUUID(), most: 4 }
  const claim = async (slots: number[]) => {
    const [row] = await bus.sql<{ answer: { claimed: number } }>(
      'select holdfast.claim_dispatch_items($1::jsonb, null, null, $2::float8[]) as answer',
      [JSON.stringify(request), slots],
    )
    return row?.answer.claimed
  }
  expect(await claim([now - 60_000, now - 50_000, now - 40_000])).toBe(0)
  expect(await claim([now - 60_000, now + 60_000])).toBe(1)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 3, CLAIMED: 1 })
})
