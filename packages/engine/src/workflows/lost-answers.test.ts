import { gate, numbered, observeWorkflows, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineWorkflow } from './define.js'

/** The connection breaks when a statement has been committed, and before its answer is here; as often as told. */
function losing(statement: string) {
  let left = 0
  return {
    lose: (times: number) => {
      left = times
    },
    get left() {
      return left
    },
    faults: (point: string) => {
      if (point !== `after ${statement}` || left === 0) return
      left -= 1
      throw Object.assign(new Error('the connection is gone'), { code: '08006' })
    },
  }
}

const write = losing('workflows.write')
let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ faults: write.faults })
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('lost')
const by = { actor: 'ann', reason: 'because' }

test('K-05 W-10 of two decisions in one flush the second is refused, also when the response to the flush is lost', async () => {
  const Flow = defineWorkflow('test', named()).waitHumanConfirm('ok').build()
  for (const lost of [0, 1]) {
    const { id } = await bus.hf.start(Flow)
    write.lose(lost)
    const both = await Promise.allSettled([
      bus.hf.workflow(id).decide('ok', 'confirm', by),
      bus.hf.workflow(id).decide('ok', 'confirm', by),
    ])
    expect([write.left, ...both.map(({ status }) => status).toSorted()]).toEqual([0, 'fulfilled', 'rejected'])
    expect(await bus.hf.workflows.decisions.of(id)).toHaveLength(1)
    expect((await bus.hf.workflow(id).get()).status).toBe('COMPLETED')
  }
})

test('K-05 an event whose response is lost is recorded once', async () => {
  const name = named()
  bus.hf.handle(name, (_, { stepName }) => stepName)
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .fork(
      'f',
      (b) => b.step('b', name),
      (b) => b.step('c', name),
    )
    .join('j', 'all')
    .build()
  write.lose(2)
  const worker = await bus.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ b: 'b', c: 'c' })
  expect(write.left).toBe(0)
  const lines = await see.lines(id)
  expect(lines).toHaveLength(new Set(lines).size)
  await worker.stop()
})

test('K-05 W-15 hooks are called for an event whose response is lost: the write that is repeated counts as done', async () => {
  const name = named()
  const completed: string[] = []
  const remove = bus.hf.workflows.use({ stepCompleted: ({ step }) => void completed.push(step) })
  bus.hf.handle(name, () => 'done')
  write.lose(1)
  const worker = await bus.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  await see.until(id, 'COMPLETED')
  await worker.stop()
  remove()
  expect([write.left, completed]).toEqual([0, ['a']])
})

test('K-05 W-01 a call that is taken over, and whose decision lost its response, is made once, and counted once', async () => {
  const name = named()
  const attempts: number[] = []
  const hung = gate()
  const victim = await openTestBus({ connectionString: bus.connectionString })
  const handler = async (_: unknown, { attempt }: { attempt: number }) => {
    attempts.push(attempt)
    if (attempts.length === 1) {
      hung.open()
      await new Promise(() => undefined)
    }
  }
  victim.hf.handle(name, handler)
  const { id } = await bus.hf.start(
    defineWorkflow('test', name)
      .step('a', name, { retry: { maxAttempts: 2 } })
      .build(),
  )
  const dying = await victim.hf.run({ poll: '20ms' })
  await hung.passed
  dying.stopNow()
  bus.hf.handle(name, handler)
  write.lose(1)
  await see.endLease(id, 'a')
  const worker = await bus.hf.run({ poll: '20ms' })
  await see.until(id, 'COMPLETED')
  // Interrupted by a stop: that call uses up no attempt (K-26).
  expect([write.left, attempts]).toEqual([0, [1, 1]])
  await worker.stop()
  await victim.close()
})
