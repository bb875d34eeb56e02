import { holdAt, longOr, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { defineWorkflow, type Workflow } from 'holdfast'
import { afterAll, beforeAll, expect, test } from 'vitest'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const ROUNDS = longOr(10, 3)
const by = { actor: 'ann', reason: 'because' }
const forked = (name: string, join: 'all' | 'any') =>
  defineWorkflow('test', name)
    .fork(
      'f',
      (b) => b.step('left', `${name} left`).onFailure('undo left', `${name} undo`),
      (b) => b.step('right', `${name} right`).onFailure('undo right', `${name} undo`),
    )
    .join('j', join)
    .step('last', `${name} last`)
    .build()

/** Two services, each with the handler of a branch, both held at the moment when they are about to record its end. */
async function atTheFinish(name: string, Flow: Workflow) {
  const holds = [holdAt('before workflows.write'), holdAt('before workflows.write')] as const
  const services = await Promise.all(
    holds.map(({ faults }) => openTestBus({ connectionString: bus.connectionString, faults })),
  )
  const [left, right] = services as [TestBus, TestBus]
  left.hf.handle(`${name} left`, () => 'left')
  right.hf.handle(`${name} right`, () => 'right')
  const { id } = await bus.hf.start(Flow)
  await Promise.all(services.map(({ hf }) => hf.run({ poll: '20ms' })))
  await Promise.all(holds.map(({ reached }) => reached))
  const go = () => {
    for (const hold of holds) hold.release()
  }
  return { id, go, close: () => Promise.all(services.map((service) => service.close())) }
}

test('W-07 two workers record the two last branches of a join at the same moment: it fires once, with both', async () => {
  bus.hf.handle('all last', (input) => input)
  const worker = await bus.hf.run({ poll: '20ms' })
  for (let round = 0; round < ROUNDS; round += 1) {
    const { id, go, close } = await atTheFinish('all', forked('all', 'all'))
    go()
    expect((await see.until(id, 'COMPLETED')).output).toEqual({ left: 'left', right: 'right' })
    expect((await see.lines(id)).filter((line) => /^join_completed|^step_started last/.test(line))).toHaveLength(2)
    await close()
  }
  await worker.stop()
}, 60_000)

test('W-07 two workers record a branch each of an `any` join at the same moment: one wins, once, and the other is on record', async () => {
  bus.hf.handle('any last', (input) => input)
  const worker = await bus.hf.run({ poll: '20ms' })
  for (let round = 0; round < ROUNDS; round += 1) {
    const { id, go, close } = await atTheFinish('any', forked('any', 'any'))
    go()
    const { output } = await see.until(id, 'COMPLETED')
    expect([{ left: 'left' }, { right: 'right' }]).toContainEqual(output)
    await waitFor('the loser is on record', async () => {
      const { left, right } = await see.statuses(id)
      return left === 'COMPLETED' && right === 'COMPLETED'
    })
    expect((await see.lines(id)).filter((line) => line === 'join_completed j')).toHaveLength(1)
    await close()
  }
  await worker.stop()
}, 60_000)

test('W-11 a cancel at the moment when both branches end: both are on record, and everything is undone once', async () => {
  const undone: string[] = []
  bus.hf.handle('cancelled undo', (_, { stepName }) => void undone.push(stepName))
  const worker = await bus.hf.run({ poll: '20ms' })
  for (let round = 0; round < ROUNDS; round += 1) {
    undone.length = 0
    const { id, go, close } = await atTheFinish('cancelled', forked('cancelled', 'all'))
    const cancelling = bus.hf.workflow(id).cancel(by)
    go()
    await cancelling
    await see.until(id, 'CANCELLED')
    expect(undone.toSorted()).toEqual(['left', 'right'])
    expect(await see.statuses(id)).toMatchObject({ left: 'ROLLED_BACK', right: 'ROLLED_BACK' })
    await close()
  }
  await worker.stop()
}, 60_000)
