import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineWorkflow } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('leases')
const claim = (handler: string, most: number) =>
  bus.sql(`select * from holdfast.claim_workflow_steps(array[$1], 'other', $2, 60000, 60000, false, 1000)`, [
    handler,
    most,
  ])

test('K-03 a lease that has ended is extended as long as no other worker has claimed the step', async () => {
  const name = named()
  const signals: AbortSignal[] = []
  const end = gate()
  bus.hf.handle(name, async (_, { signal }) => {
    signals.push(signal)
    await end.passed
  })
  const { id } = await bus.hf.start(
    defineWorkflow('test', name)
      .step('a', name, { retry: { maxAttempts: 1 } })
      .build(),
  )
  const worker = await bus.hf.run({ lease: '600ms', poll: '1h', concurrency: 1 })
  await waitFor('it is called', () => signals.length === 1)
  await see.endLease(id, 'a')
  // A claim that had no room for it.
  await claim(name, 0)
  await waitFor(
    'it is leased again',
    async () => (await bus.hf.workflow(id).steps())[0]?.queued?.leasedBy === worker.name,
  )
  end.open()
  await see.until(id, 'COMPLETED')
  expect(signals.map(({ aborted }) => aborted)).toEqual([false])
  await worker.stop()
})

test('K-02 W-05 a lease whose step another worker has claimed is lost: the signal fires, and what the handler returns changes nothing', async () => {
  const name = named()
  let lost: AbortSignal | undefined
  const end = gate()
  const answered = gate()
  bus.hf.handle(name, async (_, { signal }) => {
    lost = signal
    await end.passed
    answered.open()
    return 'too late'
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  const worker = await bus.hf.run({ lease: '600ms', poll: '1h', concurrency: 1 })
  await waitFor('it is called', () => lost !== undefined)
  // A heartbeat may extend the lease between the two.
  await waitFor('another worker has it', async () => {
    await see.endLease(id, 'a')
    const [row] = await claim(name, 1)
    return (row as { items: unknown[] }).items.length === 1
  })
  await waitFor('it is told', () => lost?.aborted)
  end.open()
  await answered.passed
  await worker.stop()
  expect(await see.statuses(id)).toEqual({ a: 'RUNNING' })
  expect((await bus.hf.workflow(id).steps())[0]?.queued?.leasedBy).toBe('other')
})

test('W-01 a workflow says how long its steps are held', async () => {
  const name = named()
  const end = gate()
  bus.hf.handle(name, () => end.passed)
  const Flow = defineWorkflow('test', name, { lease: '1h' }).step('a', name).build()
  const { id } = await bus.hf.start(Flow)
  const worker = await bus.hf.run({ lease: '2s', poll: '20ms' })
  await see.untilStep(id, 'a', 'RUNNING')
  const [held] = await bus.sql<{ seconds: number }>(
    'select extract(epoch from due_at - holdfast.now())::float8 as seconds from holdfast.workflow_step where workflow_id = $1',
    [id],
  )
  expect(held?.seconds).toBeGreaterThan(3_000)
  end.open()
  await see.until(id, 'COMPLETED')
  await worker.stop()
})
