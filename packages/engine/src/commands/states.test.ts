import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { classifyFailure } from '../kernel/failure/classify.js'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { normalizeRetryPolicy } from '../kernel/retry/retry-policy.js'
import { defineCommand } from './define.js'
import { decideFailedAttempt } from './states.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const policy = normalizeRetryPolicy(['10s', '60s', '300s'])
const transient = new TransientError('busy')
test.each([
  ['a transient failure with attempts left', transient, 1, 3, { outcome: 'RETRY', delayMs: 10_000 }],
  ['the second', transient, 2, 3, { outcome: 'RETRY', delayMs: 60_000 }],
  ['the last attempt', transient, 3, 3, { outcome: 'TSQ' }],
  ['beyond the last', transient, 4, 3, { outcome: 'TSQ' }],
  ['more attempts than delays', transient, 7, 9, { outcome: 'RETRY', delayMs: 300_000 }],
  ['a permanent failure', new PermanentError('no'), 1, 3, { outcome: 'TSQ' }],
  ['a business failure', new BusinessError('no'), 1, 3, { outcome: 'FAILED' }],
  ['a business failure at the end', new BusinessError('no'), 3, 3, { outcome: 'FAILED' }],
  ['an unknown error', new Error('?'), 1, 3, { outcome: 'RETRY', delayMs: 10_000 }],
])('C-09 C-11 %s', (_, error, attempt, maxAttempts, expected) => {
  const failure = classifyFailure(error, { unknown: 'transient' })
  expect(decideFailedAttempt(failure, attempt, maxAttempts, policy)).toEqual(expected)
})

const finish = async (domain: string, write: object): Promise<number[] | undefined> => {
  const [row] = await bus.sql<{ answers: number[] }>('select holdfast.finish_commands($1, $2, $3) as answers', [
    `${domain}__commands`,
    domain,
    JSON.stringify([{ token: randomUUID(), outcome: 'COMPLETED', result: 'forged', ...write }]),
  ])
  return row?.answers
}
const LOST = [1]

test.each<[string, () => unknown]>([
  ['COMPLETED', () => 'real'],
  ['FAILED', () => Promise.reject(new BusinessError('no'))],
  ['IN_TROUBLESHOOTING_QUEUE', () => Promise.reject(new PermanentError('no'))],
])('C-11 a command that is %s is not changed by a late finish', async (status, handler) => {
  const domain = `late-${status.toLowerCase().replaceAll('_', '-')}`
  const Do = defineCommand(domain, 'Do')
  let messageId = ''
  await bus.work(Do, (_, ctx) => {
    messageId = ctx.messageId
    return handler()
  })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('it ended', async () => (await bus.hf.command(Do, id).get()).status === status)
  const before = await bus.hf.command(Do, id).get()
  expect(await finish(domain, { msg_id: messageId, read_ct: 1, command_id: id })).toEqual(LOST)
  expect(await bus.hf.command(Do, id).get()).toEqual(before)
})

test('C-11 a cancelled command is not turned completed by its finish', async () => {
  const Do = defineCommand('late-cancelled', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const [message] = await bus.sql<{ msg_id: string }>('select msg_id from pgmq."q_late-cancelled__commands"')
  await bus.hf.command(Do, id).cancel({ actor: 'ann', reason: 'test' })
  expect(await finish('late-cancelled', { msg_id: message?.msg_id, read_ct: 0, command_id: id })).toEqual(LOST)
  expect(await bus.hf.command(Do, id).get()).toMatchObject({ status: 'CANCELLED', result: null })
})

test('C-11 a command that has ended is not changed by the finish of another message, which is audited as an orphan', async () => {
  const Do = defineCommand('twice', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const queued = async () => (await bus.sql<{ msg_id: string }>('select msg_id from pgmq.q_twice__commands'))[0]?.msg_id
  await bus.sql(
    `insert into pgmq.a_twice__commands (msg_id, vt, message) select msg_id, vt, message from pgmq.q_twice__commands`,
  )
  expect(await finish('twice', { msg_id: await queued(), read_ct: 0, command_id: id, result: 'real' })).toEqual([0])
  const stored = () => bus.sql('select * from holdfast.command where command_id = $1', [id])
  const before = await stored()
  expect(before).toMatchObject([{ status: 'COMPLETED', result: 'real' }])
  await bus.sql(`select pgmq.send('twice__commands', message) from pgmq.a_twice__commands`)
  await finish('twice', { msg_id: await queued(), read_ct: 0, command_id: id })
  expect(await stored()).toEqual(before)
  expect(await bus.events(id)).toEqual(['SENT', 'COMPLETED', 'ORPHANED'])
})

test('C-17 a finish for a command that does not exist is audited as an orphan', async () => {
  const Do = defineCommand('orphan', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const [message] = await bus.sql<{ msg_id: string }>('select msg_id from pgmq.q_orphan__commands')
  await bus.sql('delete from holdfast.command where command_id = $1', [id])
  await finish('orphan', { msg_id: message?.msg_id, read_ct: 0, command_id: id })
  expect(await bus.events(id)).toEqual(['SENT', 'ORPHANED'])
  expect(await bus.sql('select 1 from pgmq.q_orphan__commands')).toEqual([])
})

test('K-05 a finish that is repeated with its token is done, and changes nothing', async () => {
  const Do = defineCommand('repeated', 'Do')
  const { id } = await bus.hf.send(Do, null)
  const [message] = await bus.sql<{ msg_id: string }>('select msg_id from pgmq.q_repeated__commands')
  const write = { msg_id: message?.msg_id, read_ct: 0, command_id: id, token: randomUUID(), result: 1 }
  expect(await finish('repeated', write)).toEqual([0])
  expect(await finish('repeated', write)).toEqual([0])
  expect(await bus.events(id)).toEqual(['SENT', 'COMPLETED'])
})

test('K-05 a send that is repeated with its token is no duplicate', async () => {
  await bus.hf.send(defineCommand('resent', 'Do'), null)
  const command = { type: 'Do', command_id: randomUUID(), token: randomUUID(), data: null }
  const request = JSON.stringify([{ queue: 'resent__commands', domain: 'resent', commands: [command] }])
  for (let time = 0; time < 2; time += 1) {
    expect(await bus.sql('select * from holdfast.send_commands($1)', [request])).toEqual([])
  }
  expect(await bus.sql('select 1 from pgmq.q_resent__commands')).toHaveLength(2)
})

test('C-11 the table refuses an unknown status', async () => {
  const { id } = await bus.hf.send(defineCommand('checked', 'Do'), null)
  const broken = bus.sql(`update holdfast.command set status = 'DONE' where command_id = $1`, [id])
  await expect(broken).rejects.toMatchObject({ code: '23514' })
})
