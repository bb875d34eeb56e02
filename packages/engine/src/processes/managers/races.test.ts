import { type Faults, holdAt, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { defineManager } from './define.js'
import { stepCommand } from './step-command.js'

const Step = defineCommand('raced', 'Step', { data: z.object({ of: z.string(), step: z.string() }) })
const calls: string[] = []
const handled: string[] = []

const Raced = defineManager('raced', 'Raced', {
  state: z.object({ of: z.string(), seen: z.array(z.string()).default([]) }),
  firstStep: () => 'one',
  command: (step, { of }) => stepCommand(Step, { of, step }),
  onReply(state, step) {
    handled.push(`${state.of} ${step}`)
    return { ...state, seen: [...state.seen, step] }
  },
  nextStep: (step, _reply, { of }) => (step === 'one' && !of.startsWith('many') ? 'two' : null),
})

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.handle(Step, ({ of, step }) => void calls.push(`${of} ${step}`))
  // Commands only: who drives the processes is each test's own.
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => bus.close())

/** A worker of its own that drives processes and passes these fault points. */
async function driver(faults?: Faults) {
  const own = await openTestBus({ connectionString: bus.connectionString, ...(faults ? { faults } : {}) })
  onTestFinished(() => own.close())
  own.hf.register(Raced)
  return { own, worker: await own.hf.run({ domains: ['raced'], poll: '20ms', lease: '5s' }) }
}
const callsOf = (of: string) =>
  calls.filter((call) => call.startsWith(`${of} `)).map((call) => call.slice(of.length + 1))

test('M-03 K-02 a worker that comes back after its lease changes nothing: another worker has applied the reply', async () => {
  const { id } = await bus.hf.start(Raced, { of: 'zombie' })
  const hold = holdAt('before processes.apply-managed')
  const { worker } = await driver(hold.faults)
  await hold.reached
  // It claims nothing more, and still has what it decided on.
  const stopping = worker.stop()
  // Its message is another reader's from now on.
  await bus.sql('update pgmq.q_raced__process_replies set vt = holdfast.now(), read_ct = read_ct + 1')
  await driver()
  await bus.rests(id, 'COMPLETED')
  hold.release()
  await stopping
  expect(await bus.process(id)).toMatchObject({ status: 'COMPLETED', state: { seen: ['one', 'two'] } })
  expect(callsOf('zombie')).toEqual(['one', 'two'])
  expect(handled.filter((line) => line === 'zombie one')).toHaveLength(2)
})

test('M-03 an operation between a decision and its write makes the handlers decide again', async () => {
  const { id } = await bus.hf.start(Raced, { of: 'operated' })
  const hold = holdAt('before processes.apply-managed')
  await driver(hold.faults)
  await hold.reached
  await bus.cancel(id, 'PLAIN')
  hold.release()
  // The first decision would have sent the second command.
  expect(await bus.rests(id, 'CANCELLED')).toMatchObject({ state: { seen: ['one'] } })
  expect((await bus.hf.commands.list({ correlationId: id })).items).toHaveLength(1)
})

test('K-05 a write whose response was lost is recognised when it is repeated', async () => {
  let lost = 0
  await driver((point) => {
    if (point !== 'after processes.apply-managed' || lost >= 2) return
    lost += 1
    throw new Error('Connection terminated unexpectedly')
  })
  const { id } = await bus.hf.start(Raced, { of: 'unanswered' })
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ state: { seen: ['one', 'two'] } })
  expect(lost).toBe(2)
  expect(callsOf('unanswered')).toEqual(['one', 'two'])
})

test('K-05 a start whose response was lost is recognised when it is repeated, even after its first reply', async () => {
  await driver()
  let lost = false
  const starter = await openTestBus({
    connectionString: bus.connectionString,
    faults: async (point) => {
      if (point !== 'after processes.flush-managed-starts' || lost) return
      lost = true
      await waitFor('it has been driven meanwhile', () => callsOf('repeated').length === 2)
      throw new Error('Connection terminated unexpectedly')
    },
  })
  onTestFinished(() => starter.close())
  const { id } = await starter.hf.start(Raced, { of: 'repeated' })
  await bus.rests(id, 'COMPLETED')
  expect(callsOf('repeated')).toEqual(['one', 'two'])
})

test('K-05 a process locked by another transaction delays no other', async () => {
  await driver()
  const [held, free] = await Promise.all([
    bus.hf.start(Raced, { of: 'held' }, { id: '00000000-0000-4000-8000-000000000001' }),
    bus.hf.start(Raced, { of: 'free' }, { id: 'ffffffff-ffff-4fff-8fff-ffffffffffff' }),
  ])
  await bus.db.transaction(async (tx) => {
    await tx.query('select from holdfast.process where id = $1 for update', [held.id])
    await bus.rests(free.id, 'COMPLETED')
  })
  await bus.rests(held.id, 'COMPLETED')
})

test('M-03 a reply from outside that another reader has taken meanwhile is taken once', async () => {
  const Awaiting = defineManager('raced', 'Awaiting', {
    state: z.object({ replies: z.int().default(0) }),
    firstStep: () => 'wait',
    command: () => stepCommand(Step, { of: 'nobody', step: 'none' }),
    onReply: ({ replies }) => ({ replies: replies + 1 }),
    nextStep: (step) => step,
    waitOnly: () => true,
  })
  const drive = async (faults?: Faults) => {
    const own = await openTestBus({ connectionString: bus.connectionString, ...(faults ? { faults } : {}) })
    onTestFinished(() => own.close())
    own.hf.register(Awaiting)
    return own.hf.run({ domains: ['raced'], poll: '20ms', lease: '5s' })
  }
  const { id } = await bus.hf.start(Awaiting, {})
  await bus.hf.queues.send('raced__process_replies', { correlation_id: id, outcome: 'SUCCESS' })
  const hold = holdAt('before processes.apply-managed')
  const worker = await drive(hold.faults)
  await hold.reached
  const stopping = worker.stop()
  await bus.sql('update pgmq.q_raced__process_replies set vt = holdfast.now(), read_ct = read_ct + 1')
  await drive()
  await waitFor('the other has taken it', async () => {
    return (await bus.hf.queues.metrics('raced__process_replies')).length === 0
  })
  hold.release()
  await stopping
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_REPLY', state: { replies: 1 } })
})

test('K-05 the replies of two hundred processes are applied by a few statements', async () => {
  const started = await Promise.all(Array.from({ length: 200 }, (_, n) => bus.hf.start(Raced, { of: `many ${n}` })))
  await waitFor('all first commands are done', () => calls.filter((call) => /^many \d+ one$/.test(call)).length === 200)
  let effects = 0
  await driver((point) => {
    if (point === 'after processes.apply-managed') effects += 1
  })
  await waitFor('all have ended', async () => {
    const [row] = await bus.sql<{ ended: boolean }>(
      `select bool_and(status = 'COMPLETED') as ended from holdfast.process where id = any ($1)`,
      [started.map(({ id }) => id)],
    )
    return row?.ended
  })
  // All of them were there before the driver began.
  expect(effects).toBeLessThan(20)
})
