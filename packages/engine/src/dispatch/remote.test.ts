import { numbered, openTestBus, runDispatchCycle, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineDispatch } from './define.js'
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
  return defineDispatch(itemType(), {
    context: Context,
    target,
    callTimeout: 200,
    config: { dispatchIntervalSecs: 5, jitterWindowMs: 0, ...config },
  })
}

const items = (count: number, execTime = past) =>
  Array.from({ length: count }, (_, n) => ({ itemId: `PAY-${n}`, context: { n }, execTime }))
const get = (Settlement: { itemType: string }, itemId: string) => bus.hf.dispatch.items.get(Settlement, itemId)
/** What is READY again is due now. */
const hurry = ({ itemType: type }: { itemType: string }) =>
  bus.sql('update holdfast.dispatch_item set due_at = exec_time where item_type = $1 and due_at is not null', [type])
const goStale = ({ itemType: type }: { itemType: string }) =>
  bus.sql('update holdfast.dispatch_item set check_at = holdfast.now() where item_type = $1 and check_at is not null', [
    type,
  ])

test('D-05 items are started with their context, a deterministic id, and when they may start', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.dispatch.schedule(Settlement, { ...items(1)[0], initWorkflowId: 'init-0' } as never)
  await bus.hf.dispatch.configure(Settlement, { execWorkflowType: 'PaymentExec', execTaskQueue: 'exec' }, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(started).toMatchObject([
    {
      itemId: 'PAY-0',
      executionId: `exec-${Settlement.itemType}-PAY-0`,
      context: { n: 0 },
      contextVersion: 1,
      initWorkflowId: 'init-0',
      workflowType: 'PaymentExec',
      taskQueue: 'exec',
      startDelayMs: 0,
    },
  ])
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ status: 'DISPATCHED', executionId: started[0]?.executionId })
})

test('D-04 a remote target is never given more than one cycle ahead, whatever the buffer', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target, { preStartBufferMins: 30, dispatchIntervalSecs: 60 })
  const [{ now } = { now: past }] = await bus.sql<{ now: Date }>('select holdfast.now() as now')
  await bus.hf.dispatch.schedule(Settlement, [
    { itemId: 'soon', context: { n: 1 }, execTime: new Date(now.getTime() + 40_000) },
    { itemId: 'later', context: { n: 2 }, execTime: new Date(now.getTime() + 120_000) },
  ])
  await runDispatchCycle(bus.db, Settlement)
  expect(started.map(({ itemId }) => itemId)).toEqual(['soon'])
  expect(started[0]?.startAt.getTime()).toBe(now.getTime() + 40_000)
  expect(started[0]?.startDelayMs).toBeGreaterThan(0)
  expect(started[0]?.startDelayMs).toBeLessThanOrEqual(40_000)
})

test('D-06 a failed start goes back to READY with its count raised and the same execution id; the others go on', async () => {
  const { target, started, startAs } = engine()
  const Settlement = settlement(target)
  await bus.hf.dispatch.schedule(Settlement, items(4))
  startAs(({ itemId }) => (itemId === 'PAY-2' ? { failed: new Error('no capacity') } : 'started'))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 3, READY: 1 })
  expect(await get(Settlement, 'PAY-2')).toMatchObject({ retryCount: 1, lastError: 'INTERNAL_ERROR: no capacity' })
  startAs(() => 'already started')
  await hurry(Settlement)
  await runDispatchCycle(bus.db, Settlement)
  // It had happened after all: that counts as started.
  expect(await get(Settlement, 'PAY-2')).toMatchObject({
    status: 'DISPATCHED',
    executionId: `exec-${Settlement.itemType}-PAY-2`,
  })
  expect(started.map(({ itemId }) => itemId)).toEqual(['PAY-0', 'PAY-1', 'PAY-3'])
})

test.each([
  ['throws', () => Promise.reject(new Error('down')), 'down'],
  ['hangs', () => new Promise(() => undefined), 'HF_TARGET_TIMEOUT'],
  ['answers nonsense', () => 42, 'HF_TARGET_NONSENSE'],
  ['answers too little', (outcomes: StartOutcome[]) => outcomes.slice(1), 'HF_TARGET_NONSENSE'],
])('D-13 a target that %s fails its items, which are tried again under the same ids', async (_how, how, error) => {
  const { target, answer, startAs } = engine()
  const Settlement = settlement(target, { maxDispatchRetries: 2 })
  await bus.hf.dispatch.schedule(Settlement, items(2))
  answer(how)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 2 })
  expect((await get(Settlement, 'PAY-1')).lastError).toContain(error)
  answer(undefined)
  startAs(() => 'already started')
  for (let cycle = 0; cycle < 2; cycle += 1) {
    await hurry(Settlement)
    await runDispatchCycle(bus.db, Settlement)
  }
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2 })
  expect((await get(Settlement, 'PAY-1')).executionId).toBe(`exec-${Settlement.itemType}-PAY-1`)
})

test('D-13 nonsense about one item fails that item', async () => {
  const { target, answer } = engine()
  const Settlement = settlement(target)
  await bus.hf.dispatch.schedule(Settlement, items(3))
  answer((outcomes) => outcomes.map((outcome, place) => (place === 1 ? null : outcome)))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2, READY: 1 })
})

test('D-08 a context that cannot be read fails its item, not the batch', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target)
  await bus.hf.dispatch.schedule(Settlement, items(4))
  const { itemType: type } = Settlement
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
  expect(started.map(({ itemId }) => itemId)).toEqual(['PAY-3'])
  expect((await get(Settlement, 'PAY-0')).lastError).toContain('CONTEXT_MISSING')
  expect((await get(Settlement, 'PAY-1')).lastError).toContain('CONTEXT_BROKEN')
  expect((await get(Settlement, 'PAY-2')).lastError).toContain('CONTEXT_BROKEN')
  expect((await get(Settlement, 'PAY-2')).retryCount).toBe(1)
})

/** Claims items as a dispatcher would that dies before it has started them. */
async function claimAndDie(Settlement: { itemType: string }, most = 500): Promise<void> {
  await bus.sql(
    `with cycle as (
       update holdfast.dispatch_cycle set lease_epoch = lease_epoch + 1 where item_type = $1 returning lease_epoch
     ) select lease_epoch from cycle`,
    [Settlement.itemType],
  )
  const [cycle] = await bus.sql<{ lease_epoch: number }>(
    'select lease_epoch from holdfast.dispatch_cycle where item_type = $1',
    [Settlement.itemType],
  )
  const request = { type: Settlement.itemType, epoch: cycle?.lease_epoch, batch: crypto.randomUUID(), most }
  await bus.sql('select holdfast.claim_dispatch_items($1::jsonb, null, null, null)', [JSON.stringify(request)])
}

test('D-13 stale claims: not found is READY with its count raised, running is DISPATCHED, ended ends, unknown is left alone', async () => {
  const { target, states, startAs } = engine()
  const Settlement = settlement(target, { maxDispatchRetries: 5 })
  await bus.hf.dispatch.schedule(Settlement, items(6))
  await claimAndDie(Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 6 })
  const state = (n: number, found: ExecutionState) => states.set(`exec-${Settlement.itemType}-PAY-${n}`, found)
  state(1, { status: 'RUNNING' })
  state(2, { status: 'COMPLETED' })
  state(3, { status: 'FAILED', error: new Error('out of memory') })
  state(4, { status: 'CANCELLED' })
  state(5, { status: 'UNKNOWN' })
  startAs(() => ({ failed: new Error('not now') }))
  await runDispatchCycle(bus.db, Settlement)
  // Not stale yet: nobody looks.
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 6 })
  await goStale(Settlement)
  await runDispatchCycle(bus.db, Settlement)
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
  expect(await bus.hf.auditTrail({ name: `${Settlement.itemType}/PAY-0` })).toMatchObject([
    { event: 'STALE_RECOVERED', before: { status: 'CLAIMED' }, after: { status: 'READY' } },
  ])
  // What failed as an execution gets a new id; what was never found keeps its own.
  startAs(() => 'started')
  await hurry(Settlement)
  await runDispatchCycle(bus.db, Settlement)
  await runDispatchCycle(bus.db, Settlement)
  expect((await get(Settlement, 'PAY-0')).executionId).toBe(`exec-${Settlement.itemType}-PAY-0`)
  expect((await get(Settlement, 'PAY-3')).executionId).toBe(`exec-${Settlement.itemType}-PAY-3-1`)
})

test('D-13 executions that go on are asked about now and then, a bounded number per cycle, each in its turn', async () => {
  const asked: string[] = []
  const { target, describing } = engine()
  const Settlement = settlement(target, { maxStaleRecoveryPerCycle: 2 })
  await bus.hf.dispatch.schedule(Settlement, items(5))
  await runDispatchCycle(bus.db, Settlement)
  await goStale(Settlement)
  describing((ids) => {
    asked.push(...ids)
    return ids.map(() => ({ status: 'RUNNING' }))
  })
  for (let cycle = 0; cycle < 3; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(new Set(asked).size).toBe(5)
  expect(asked).toHaveLength(5)
  describing((ids) => ids.map(() => ({ status: 'COMPLETED' })))
  await goStale(Settlement)
  for (let cycle = 0; cycle < 3; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ COMPLETED: 5 })
})

test.each([
  ['throws', () => Promise.reject(new Error('unreachable'))],
  ['hangs', () => new Promise(() => undefined)],
  ['answers nonsense', () => [{ status: 'PERHAPS' }, null]],
])('D-13 a target that %s when asked changes nothing', async (_how, how) => {
  const { target, describing } = engine()
  const Settlement = settlement(target)
  await bus.hf.dispatch.schedule(Settlement, items(2))
  await claimAndDie(Settlement)
  await goStale(Settlement)
  describing(how)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ CLAIMED: 2 })
  expect((await get(Settlement, 'PAY-0')).retryCount).toBe(0)
})

test('D-06 an item whose dispatcher dies again and again counts, and takes no others to the dead letters with it', async () => {
  const { target } = engine()
  const Settlement = settlement(target, { batchSize: 64, maxDispatchRetries: 5 })
  await bus.hf.dispatch.schedule(Settlement, items(64))
  const claimed = async () =>
    (await bus.hf.dispatch.items.list(Settlement, { status: 'CLAIMED' })).map(({ itemId }) => itemId)
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
        [Settlement.itemType, batch[0], batch, batch.length],
      )
      continue
    }
    await goStale(Settlement)
    await bus.sql(
      `select holdfast.apply_dispatch_checks($1, (
      select jsonb_agg(jsonb_build_object('id', item_id, 'execution', execution_id, 'found', 'NOT_FOUND'))
      from holdfast.dispatch_item where item_type = $1 and status = 'CLAIMED'))`,
      [Settlement.itemType],
    )
  }
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 63, DEAD_LETTER: 1 })
  expect(await bus.hf.dispatch.deadLetters.list({ itemType: Settlement.itemType })).toMatchObject([
    { itemId: 'PAY-7', retryCount: 5 },
  ])
})

test('D-06 the kill switch stops a remote target as well: nothing more is handed over', async () => {
  const { target, started } = engine()
  const Settlement = settlement(target, { batchSize: 2 })
  await bus.hf.dispatch.schedule(Settlement, items(4))
  await runDispatchCycle(bus.db, Settlement)
  await bus.hf.dispatch.pause(Settlement, by)
  await runDispatchCycle(bus.db, Settlement)
  expect(started).toHaveLength(2)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2, READY: 2 })
})
