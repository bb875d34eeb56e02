import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { defineManager } from './define.js'
import { stepCommand } from './step-command.js'

const QUEUE = 'confirmed__process_replies'
const Submit = defineCommand('confirmed', 'Submit', { data: z.string() })
const Recall = defineCommand('confirmed', 'Recall', { data: z.string() })
const Confirmation = z.object({ level: z.string() })
const sent: string[] = []

/** Sends a payment and then waits for the network: each level confirms by itself, in any order. */
const Payment = defineManager('confirmed', 'Payment', {
  state: z.object({
    name: z.string(),
    needs: z.array(z.string()),
    confirmed: z.array(z.string()).default([]),
    submitted: z.boolean().default(false),
  }),
  steps: ['submit', 'first', 'others'],
  firstStep: ({ submitted }) => (submitted ? 'first' : 'submit'),
  command: (_step, { name }) => stepCommand(Submit, name),
  onReply(state, step, { outcome, result }) {
    if (step === 'submit' || outcome !== 'SUCCESS') return state
    return { ...state, confirmed: [...state.confirmed, `${Confirmation.parse(result).level} at ${step}`] }
  },
  nextStep(step, _reply, { needs, confirmed }) {
    const has = (level: string) => confirmed.some((one) => one.startsWith(`${level} `))
    if (step === 'submit') return 'first'
    if (step === 'first' && !has('L1')) return 'first'
    return needs.every(has) ? null : 'others'
  },
  compensation: (step, { name }) => (step === 'submit' ? stepCommand(Recall, name) : undefined),
  waitOnly: (step) => step !== 'submit',
})

let bus: TestBus
let letSubmit = () => {}
let submitting = Promise.resolve()
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.register(Payment)
  bus.hf.handle(Submit, async (name) => {
    if (name.startsWith('slow')) await submitting
    sent.push(`submit ${name}`)
  })
  bus.hf.handle(Recall, (name) => void sent.push(`recall ${name}`))
  await bus.hf.run({ poll: '20ms', concurrency: 10 })
})
afterAll(() => bus.close())

function holdSubmits(): void {
  submitting = new Promise((resolve) => {
    letSubmit = resolve
  })
}
const confirm = (id: string, level: string, more: object = {}) => ({
  correlation_id: id,
  outcome: 'SUCCESS',
  final: true,
  result: { level },
  ...more,
})
const confirmations = async (id: string) =>
  z.object({ confirmed: z.array(z.string()) }).parse((await bus.process(id)).state).confirmed
const kept = async (id: string) =>
  (await bus.sql('select number from holdfast.process_response where process_id = $1', [id])).length
const idle = () => waitFor('the reply queue is empty', async () => (await bus.hf.queues.metrics(QUEUE)).length === 0)

test('M-03 a step that only waits collects replies from outside until it has what it needs', async () => {
  const { id } = await bus.hf.start(Payment, { name: 'plain', needs: ['L1', 'L2', 'L3'] })
  await waitFor('it waits', async () => (await bus.process(id)).waiting_for === 'first')
  for (const level of ['L2', 'L1', 'L3']) await bus.hf.queues.send(QUEUE, confirm(id, level))
  await bus.rests(id, 'COMPLETED')
  expect((await confirmations(id)).map((one) => one.slice(0, 2)).sort()).toEqual(['L1', 'L2', 'L3'])
  expect(sent.filter((one) => one.endsWith('plain'))).toEqual(['submit plain'])
})

test('M-03 replies that come before the step is reached are kept for it, in their order', async () => {
  holdSubmits()
  const { id } = await bus.hf.start(Payment, { name: 'slow early', needs: ['L1', 'L2', 'L3'] })
  await bus.hf.queues.sendBatch(QUEUE, [confirm(id, 'L3'), confirm(id, 'L2'), confirm(id, 'L1')])
  await waitFor('they are kept', async () => (await kept(id)) === 3)
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_REPLY', waiting_for: 'submit' })
  expect(await confirmations(id)).toEqual([])
  letSubmit()
  await bus.rests(id, 'COMPLETED')
  expect(await confirmations(id)).toEqual(['L3 at first', 'L2 at first', 'L1 at first'])
  expect(await bus.history(id)).toEqual([
    'COMMAND submit STARTED',
    'COMMAND submit COMPLETED',
    'WAIT first STARTED',
    'EVENT first COMPLETED',
    'EVENT first COMPLETED',
    'EVENT first COMPLETED',
  ])
})

test('M-03 replies that one waiting step leaves are kept for the next', async () => {
  holdSubmits()
  const { id } = await bus.hf.start(Payment, { name: 'slow two', needs: ['L1', 'L2'] })
  await bus.hf.queues.sendBatch(QUEUE, [confirm(id, 'L1'), confirm(id, 'L2')])
  await waitFor('they are kept', async () => (await kept(id)) === 2)
  letSubmit()
  await bus.rests(id, 'COMPLETED')
  expect(await confirmations(id)).toEqual(['L1 at first', 'L2 at others'])
})

test('M-02 a process may begin with a step that only waits', async () => {
  const { id, status } = await (await bus.hf.start(Payment, { name: 'begins', needs: ['L1'], submitted: true })).get()
  expect(status).toBe('WAITING_FOR_REPLY')
  await bus.hf.queues.send(QUEUE, confirm(id, 'L1'))
  await bus.rests(id, 'COMPLETED')
  expect(sent.filter((one) => one.endsWith('begins'))).toEqual([])
})

test('M-03 a reply from outside with an id of its own is taken once, however often it comes', async () => {
  const { id } = await bus.hf.start(Payment, { name: 'ids', needs: ['L1', 'L9'], submitted: true })
  const twice = confirm(id, 'L2', { reply_id: 'network-2' })
  await bus.hf.queues.sendBatch(QUEUE, [twice, twice])
  await bus.hf.queues.send(QUEUE, twice)
  await idle()
  expect(await confirmations(id)).toEqual(['L2 at first'])
  await bus.hf.queues.sendBatch(QUEUE, [confirm(id, 'L1'), confirm(id, 'L9')])
  await bus.rests(id, 'COMPLETED')
})

test('M-03 a failure from outside undoes what was done', async () => {
  const { id } = await bus.hf.start(Payment, { name: 'bounced', needs: ['L1'] })
  const bounced = {
    outcome: 'FAILED',
    error_type: 'BUSINESS_RULE',
    error_code: 'ACCOUNT_CLOSED',
    error_message: 'closed',
  }
  await bus.hf.queues.send(QUEUE, confirm(id, 'L1', bounced))
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'ACCOUNT_CLOSED' })
  expect(sent.filter((one) => one.endsWith('bounced'))).toEqual(['submit bounced', 'recall bounced'])
})

test('M-03 a hundred replies to one process at once: none is lost, none is taken twice', async () => {
  const levels = Array.from({ length: 100 }, (_, n) => `L${n + 1}`)
  const { id } = await bus.hf.start(Payment, { name: 'crowd', needs: levels, submitted: true })
  const other = await openTestBus({ connectionString: bus.connectionString })
  other.hf.register(Payment)
  await other.hf.run({ poll: '20ms' })
  await Promise.all(levels.map((level) => bus.hf.queues.send(QUEUE, confirm(id, level))))
  await bus.rests(id, 'COMPLETED')
  const numbers = (await confirmations(id)).map((one) => Number(one.slice(1).split(' ')[0]))
  expect(numbers.sort((a, b) => a - b)).toEqual(levels.map((_, n) => n + 1))
  await other.close()
})

test('M-03 a reply after the end is in the state, on record and audited; the status stays', async () => {
  const { id } = await bus.hf.start(Payment, { name: 'over', needs: ['L1'], submitted: true })
  await bus.hf.queues.send(QUEUE, confirm(id, 'L1'))
  await bus.rests(id, 'COMPLETED')
  await bus.hf.queues.send(QUEUE, confirm(id, 'L7', { outcome: 'SUCCESS' }))
  await waitFor('it is audited', async () => (await bus.events(id)).includes('LATE_ASYNC_RESPONSE'))
  expect(await bus.process(id)).toMatchObject({ status: 'COMPLETED' })
  expect(await confirmations(id)).toEqual(['L1 at first', 'L7 at first'])
  await bus.hf.queues.send(QUEUE, confirm(id, 'L8', { result: 'no confirmation at all' }))
  await idle()
  expect(await confirmations(id)).toEqual(['L1 at first', 'L7 at first'])
})

test('M-03 a reply from outside that the handlers refuse is kept, and applied after the repair', async () => {
  const { id } = await bus.hf.start(Payment, { name: 'odd', needs: ['L1'], submitted: true })
  await bus.hf.queues.send(QUEUE, confirm(id, 'L1', { result: 'no confirmation at all' }))
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({ error_code: 'HANDLER_FAILED' })
  await bus.hf.queues.send(QUEUE, confirm(id, 'L1'))
  await idle()
  // Recorded, not resumed: the order in which they came is kept.
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_TSQ' })
  await bus.sql(
    `update holdfast.process_response set data = jsonb_set(data, '{result}', '{"level": "L2"}') where process_id = $1 and number = 1`,
    [id],
  )
  await bus.retry(id)
  await bus.rests(id, 'COMPLETED')
  expect(await confirmations(id)).toEqual(['L2 at first', 'L1 at first'])
})
