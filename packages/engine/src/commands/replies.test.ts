import { randomUUID } from 'node:crypto'
import { countStatements, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
const replyQueue = async (domain: string) => {
  const name = `${domain}__replies`
  await bus.hf.queues.create(name)
  return name
}
const replies = async (queue: string) => {
  const rows = await bus.sql<{ message: Record<string, unknown> }>(
    `select message from pgmq."q_${queue}" order by msg_id`,
  )
  return rows.map(({ message }) => message)
}
const troubled = (domain: string, count = 1) =>
  waitFor('it is in troubleshooting', async () => (await bus.hf.trouble.count({ model: 'commands', domain })) === count)

test('C-15 WK-8 C-10 success is replied with the result, once and finally', async () => {
  const Do = defineCommand('replying', 'Do')
  await bus.work(Do, (data) => ({ doubled: Number(data) * 2 }))
  const replyTo = await replyQueue('replying')
  const correlationId = randomUUID()
  const { id } = await bus.hf.send(Do, 21, { replyTo, correlationId })
  await bus.hf.command(Do, id).result()
  expect(await replies(replyTo)).toEqual([
    { command_id: id, correlation_id: correlationId, outcome: 'SUCCESS', final: true, result: { doubled: 42 } },
  ])
})

test('C-10 a result of null is included, and fields that were not asked for are left out', async () => {
  const Do = defineCommand('nothing', 'Do')
  await bus.work(Do, () => null)
  const replyTo = await replyQueue('nothing')
  const { id } = await bus.hf.send(Do, null, { replyTo })
  await bus.hf.command(Do, id).result()
  expect(await replies(replyTo)).toEqual([{ command_id: id, outcome: 'SUCCESS', final: true, result: null }])
})

test('C-15 WK-8 without replyTo no reply is sent', async () => {
  const Do = defineCommand('silent', 'Do')
  await bus.work(Do, () => null)
  const replyTo = await replyQueue('silent')
  await (await bus.hf.send(Do, null)).result()
  expect(await replies(replyTo)).toEqual([])
})

test('C-10 a business failure is replied finally as BUSINESS_RULE', async () => {
  const Do = defineCommand('declined', 'Do')
  await bus.work(Do, () => {
    throw new BusinessError('declined', { code: 'CARD_DECLINED' })
  })
  const replyTo = await replyQueue('declined')
  const { id } = await bus.hf.send(Do, null, { replyTo })
  await expect(bus.hf.command(Do, id).result()).rejects.toMatchObject({ code: 'HF_NOT_COMPLETED' })
  expect(await replies(replyTo)).toEqual([
    {
      command_id: id,
      outcome: 'FAILED',
      final: true,
      error_type: 'BUSINESS_RULE',
      error_code: 'CARD_DECLINED',
      error_message: 'declined',
    },
  ])
})

test.each([
  ['completes', 'complete', { outcome: 'SUCCESS', final: true, result: { by: 'hand' } }],
  // Without `effect`: the only call was refused.
  ['cancels', 'cancel', { outcome: 'CANCELLED', final: true }],
] as const)(
  'C-09 C-10 a provisional FAILED reply is followed by the final one when an operator %s',
  async (what, action, final) => {
    const Do = defineCommand(`provisional-${what}`, 'Do')
    await bus.work(Do, () => {
      throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
    })
    const replyTo = await replyQueue(Do.domain)
    const { id } = await bus.hf.send(Do, null, { replyTo })
    await troubled(Do.domain)
    const provisional = {
      command_id: id,
      outcome: 'FAILED',
      final: false,
      error_type: 'PERMANENT',
      error_code: 'NO_ACCOUNT',
      error_message: 'no such account',
    }
    expect(await replies(replyTo)).toEqual([provisional])
    const command = bus.hf.command(Do, id)
    await (action === 'complete' ? command.complete(by, { by: 'hand' }) : command.cancel(by))
    expect(await replies(replyTo)).toEqual([provisional, { command_id: id, ...final }])
    await expect(command[action](by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    expect(await replies(replyTo)).toHaveLength(2)
  },
)

test('C-10 retries send no reply; the last attempt sends a provisional one of type TRANSIENT, a later success the final', async () => {
  const Do = defineCommand('stubborn', 'Do', { retry: { maxAttempts: 2, delays: ['1ms'] } })
  let broken = true
  await bus.work(Do, () => {
    if (broken) throw new TransientError('busy', { code: 'BUSY' })
    return 'mended'
  })
  const replyTo = await replyQueue('stubborn')
  const { id } = await bus.hf.send(Do, null, { replyTo })
  await troubled('stubborn')
  expect(await replies(replyTo)).toMatchObject([{ outcome: 'FAILED', final: false, error_type: 'TRANSIENT' }])
  broken = false
  await bus.hf.command(Do, id).retry(by)
  expect(await bus.hf.command(Do, id).result()).toBe('mended')
  expect((await replies(replyTo)).map(({ outcome, final }) => [outcome, final])).toEqual([
    ['FAILED', false],
    ['SUCCESS', true],
  ])
})

test('C-14 cancelling before the start replies CANCELLED', async () => {
  const Do = defineCommand('called-off', 'Do')
  const replyTo = await replyQueue('called-off')
  const { id } = await bus.hf.send(Do, null, { replyTo })
  await bus.hf.command(Do, id).cancel(by)
  expect(await replies(replyTo)).toEqual([{ command_id: id, outcome: 'CANCELLED', final: true }])
})

test('C-10 a missing reply queue does not prevent the end of the command, and is audited', async () => {
  const Do = defineCommand('orphans', 'Do')
  const replyTo = await replyQueue('orphans')
  const other = await replyQueue('orphans-two')
  const { id: gone } = await bus.hf.send(Do, null, { replyTo })
  const { id: there } = await bus.hf.send(Do, null, { replyTo: other })
  await bus.hf.queues.drop(replyTo)
  await bus.work(Do, () => 'done')
  expect(await bus.hf.command(Do, gone).result()).toBe('done')
  await bus.hf.command(Do, there).result()
  expect(await bus.events(gone)).toEqual(['SENT', 'RECEIVED', 'COMPLETED', 'REPLY_FAILED'])
  expect(await replies(other)).toHaveLength(1)
})

test('K-10 a Date in a reply is plain JSON for foreign readers, with its note in the headers', async () => {
  const Do = defineCommand('dated', 'Do')
  await bus.work(Do, () => ({ at: new Date(0) }))
  const replyTo = await replyQueue('dated')
  await (await bus.hf.send(Do, null, { replyTo })).result()
  expect(await bus.hf.queues.read(replyTo)).toMatchObject([
    { message: { result: { at: '1970-01-01T00:00:00.000Z' } }, headers: { notes: { '/at': 'date' } } },
  ])
})

test('C-10 each of hundreds of commands gets exactly one final reply', async () => {
  const Do = defineCommand('many', 'Do')
  const replyTo = await replyQueue('many')
  await bus.work(
    Do,
    (n) => {
      if (Number(n) % 3 === 0) throw new BusinessError('no')
      return n
    },
    { concurrency: 20 },
  )
  const ids = (
    await bus.hf.sendMany(
      Do,
      Array.from({ length: 300 }, (_, data) => ({ data, replyTo })),
    )
  ).map(({ id }) => id)
  await waitFor('all are replied', async () => (await replies(replyTo)).length >= 300)
  const answered = (await replies(replyTo)).map((reply) => reply.command_id)
  expect(new Set(answered)).toEqual(new Set(ids))
  expect(answered).toHaveLength(300)
})

test('C-08 message, status, result, audit, reply and batch are finished by one statement', async () => {
  const counter = countStatements()
  const counted = await openTestBus({ connectionString: bus.connectionString, faults: counter.faults })
  const Do = defineCommand('one-statement', 'Do')
  const replyTo = await replyQueue('one-statement')
  const batchId = await bus.hf.batches.create(Do, [{ data: 1, replyTo }])
  await counted.work(Do, () => 'done')
  await waitFor('the batch has closed', async () => (await bus.hf.batches.get(batchId)).status === 'COMPLETED')
  expect(await replies(replyTo)).toMatchObject([{ outcome: 'SUCCESS', final: true }])
  // Its effects are seen by others before its answer has arrived here.
  await waitFor('the finish has been answered', () => counter.counts.has('commands.finish'))
  expect(counter.counts.get('commands.finish')).toBe(1)
  const known = [
    'finish',
    'receive',
    'note-handlers',
    'note-queue',
    'extend',
    'release',
    'domains',
    'sweep',
    'oldest-due',
  ]
  const others = [...counter.counts.keys()].filter(
    (name) => name.startsWith('commands.') && !known.includes(name.slice('commands.'.length)),
  )
  expect(others).toEqual([])
  await counted.close()
})
