import { randomUUID } from 'node:crypto'
import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domainOf = numbered('dropped')
const by = { actor: 'ann', reason: 'ticket 7' }

/** A domain with a command in troubleshooting and one that waits, and then without its queue. */
async function withoutQueue() {
  const Pay = defineCommand(domainOf(), 'Pay')
  bus.hf.handle(Pay, async () => {
    throw new PermanentError('no such account')
  })
  const { id: failed } = await bus.hf.send(Pay, {})
  const worker = bus.hf.worker(Pay.domain, { poll: '20ms' })
  await worker.start()
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: Pay.domain })) === 1,
  )
  await worker.stop()
  const { id: waiting } = await bus.hf.send(Pay, {})
  await bus.sql('select pgmq.drop_queue($1)', [`${Pay.domain}__commands`])
  return { Pay, failed, waiting }
}

test('C-14 the commands of a domain whose queue was dropped are still listed, with and without naming the domain', async () => {
  const { Pay, failed, waiting } = await withoutQueue()
  const statuses = (list: readonly { id: string; status: string }[]) =>
    Object.fromEntries(list.map(({ id, status }) => [id, status]))
  const expected = { [failed]: 'IN_TROUBLESHOOTING_QUEUE', [waiting]: 'PENDING' }
  expect(statuses((await bus.hf.commands.list({ domain: Pay.domain })).items)).toEqual(expected)
  expect(statuses((await bus.hf.commands.list({ limit: 1_000 })).items)).toMatchObject(expected)
  expect(await bus.hf.command(Pay, waiting).get()).toMatchObject({ status: 'PENDING', dueAt: null })
  expect((await bus.hf.trouble.list({ model: 'commands', domain: Pay.domain })).items).toHaveLength(1)
})

test('C-13 C-14 operations on them take effect, or are refused with a code', async () => {
  const { Pay, failed, waiting } = await withoutQueue()
  await expect(bus.hf.command(Pay, failed).retry(by)).rejects.toMatchObject({ code: 'HF_QUEUE_NOT_FOUND' })
  expect(await bus.hf.trouble.retry([failed], by)).toMatchObject([{ id: failed, code: 'HF_QUEUE_NOT_FOUND' }])
  await bus.hf.command(Pay, failed).cancel(by)
  await bus.hf.command(Pay, waiting).cancel(by)
  for (const id of [failed, waiting]) {
    expect(await bus.hf.command(Pay, id).get()).toMatchObject({ status: 'CANCELLED' })
  }
})

test('C-14 C-17 commands of two domains that share an id have an audit trail each', async () => {
  const [First, Second] = [defineCommand(domainOf(), 'Pay'), defineCommand(domainOf(), 'Pay')] as const
  bus.hf.handle(First, async () => 'paid')
  bus.hf.handle(Second, async () => {
    throw new PermanentError('no such account')
  })
  const commandId = randomUUID()
  await bus.hf.send(First, {}, { id: commandId })
  await bus.hf.send(Second, {}, { id: commandId })
  const workers = [First, Second].map(({ domain }) => bus.hf.worker(domain, { poll: '20ms' }))
  await Promise.all(workers.map((worker) => worker.start()))
  await bus.hf.command(First, commandId).result()
  await waitFor('the other is in troubleshooting', async () => {
    return (await bus.hf.trouble.count({ model: 'commands', domain: Second.domain })) === 1
  })
  await bus.hf.command(Second, commandId).cancel(by)
  await Promise.all(workers.map((worker) => worker.stop()))
  const events = async (command: typeof First) =>
    (await bus.hf.command(command, commandId).history()).map(({ event }) => event)
  expect(await events(First)).toEqual(['SENT', 'RECEIVED', 'COMPLETED'])
  expect(await events(Second)).toEqual(['SENT', 'RECEIVED', 'MOVED_TO_TSQ', 'OPERATOR_CANCEL'])
  const whole = await bus.hf.auditTrail({ id: commandId })
  expect(whole).toHaveLength(7)
  const ofFirst = whole.filter(({ detail }) => (detail as { domain: string }).domain === First.domain)
  expect(ofFirst).toEqual(await bus.hf.auditTrail({ id: commandId, domain: First.domain }))
})
