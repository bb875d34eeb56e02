import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './define.js'
import type { SendOptions } from './send-options.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const Pay = defineCommand('pay', 'Pay', { data: z.object({ lines: z.array(z.object({ amount: z.number() })) }) })
const written = async () => {
  const [row] = await bus.sql<{ count: number }>(
    'select ((select count(*) from holdfast.command) + (select count(*) from holdfast.audit))::int as count',
  )
  return row?.count
}
/** Refused with this code and these words, and nothing written. */
async function refused(work: () => Promise<unknown>, code: string, said: string): Promise<void> {
  const before = await written()
  const error = await work().then(
    () => undefined,
    (problem) => problem,
  )
  expect(error).toMatchObject({ name: 'HoldfastError', code, message: expect.stringContaining(said) })
  expect(error.next).not.toBe('')
  expect(await written()).toBe(before)
}

test('K-13 a payload that its schema refuses is refused at send, with the path of the field', async () => {
  const bad = { lines: [{ amount: 1 }, { amount: 'two' as unknown as number }] }
  await refused(() => bus.hf.send(Pay, bad), 'HF_INVALID_DATA', 'send pay/Pay: $.lines[1].amount')
})

test.each<[string, SendOptions, string, string]>([
  ['a startAt that is no date', { startAt: 'tomorrow' }, 'HF_INVALID_OPTION', 'startAt'],
  ['a startAt without an offset', { startAt: '2030-01-01T00:00:00' }, 'HF_INVALID_OPTION', 'with Z or an offset'],
  ['a startAt that is Invalid Date', { startAt: new Date('x') }, 'HF_INVALID_OPTION', 'startAt'],
  ['delay and startAt', { delay: '1s', startAt: new Date() }, 'HF_INVALID_OPTION', 'one of them'],
  ['a negative delay', { delay: -5 }, 'HF_INVALID_DURATION', 'delay'],
  ['a delay that is none', { delay: 'soon' as '1s' }, 'HF_INVALID_DURATION', 'delay'],
  ['a replyTo queue that does not exist', { replyTo: 'nowhere' }, 'HF_QUEUE_NOT_FOUND', 'nowhere'],
  ['a replyTo that PGMQ cannot hold', { replyTo: 'x'.repeat(48) }, 'HF_INVALID_QUEUE_NAME', '47'],
  ['a replyTo with capitals', { replyTo: 'Replies' }, 'HF_INVALID_QUEUE_NAME', 'lower case'],
  ['an id that is none', { id: 'PAY-1' }, 'HF_INVALID_ID', ': id'],
  ['a correlationId that is none', { correlationId: '7' }, 'HF_INVALID_ID', 'correlationId'],
  ['a batch that is no id', { batch: '7' }, 'HF_INVALID_ID', ': batch'],
  ['a batch that does not exist', { batch: randomUUID() }, 'HF_BATCH_CLOSED', 'does not exist'],
  ['no attempts', { retry: { maxAttempts: 0 } }, 'HF_INVALID_OPTION', 'maxAttempts'],
  ['attempts without end', { retry: { maxAttempts: 3e9 } }, 'HF_INVALID_OPTION', 'maxAttempts'],
  ['a startAt beyond all years', { startAt: new Date(8.64e15) }, 'HF_INVALID_OPTION', '9999'],
  ['half an attempt', { retry: { maxAttempts: 1.5 } }, 'HF_INVALID_OPTION', 'maxAttempts'],
  ['an ifExists that is none', { ifExists: 'replace' as 'ignore' }, 'HF_INVALID_OPTION', "'ignore'"],
  [
    'an unknown option',
    { correlationID: randomUUID() } as SendOptions,
    'HF_UNKNOWN_OPTION',
    'did you mean `correlationId`?',
  ],
  ['a transaction that is none', { transaction: {} as never }, 'HF_INVALID_OPTION', 'query'],
])('K-13 a send with %s is refused, and nothing is written', async (_, options, code, said) => {
  await refused(() => bus.hf.send(Pay, { lines: [] }, options), code, said)
  const { transaction, ...own } = options
  if (!transaction) await refused(() => bus.hf.sendMany(Pay, [{ data: { lines: [] }, ...own }]), code, said)
})

test.each([
  ['nothing', [], 'must be a list that is not empty'],
  ['no list', 'x', 'must be a list that is not empty'],
  ['a command that is none', [null], 'commands[0]'],
  ['a misspelt field', [{ data: { lines: [] }, replyto: 'x' }], 'did you mean `replyTo`?'],
  ['a transaction of one of them', [{ data: { lines: [] }, transaction: {} }], 'transaction'],
])('C-03 a sendMany of %s is refused', async (_, commands, said) => {
  await expect(bus.hf.sendMany(Pay, commands as never)).rejects.toMatchObject({
    name: 'HoldfastError',
    message: expect.stringContaining(said),
  })
})

test.each([
  ['Payments', 'lower case'],
  ['pay ments', 'letters'],
  ['x'.repeat(40), '47'],
  ['hf_pay', 'hf_'],
])('Q-03 the domain %j is refused where it is used', async (domain, said) => {
  const Do = defineCommand(domain, 'Do')
  await refused(() => bus.hf.send(Do, null), 'HF_INVALID_QUEUE_NAME', said)
  await refused(() => bus.hf.batches.open(domain), 'HF_INVALID_QUEUE_NAME', said)
})

test.each([
  [{ retry: { maxAtempts: 3 } }, 'HF_UNKNOWN_OPTION', 'did you mean `maxAttempts`?'],
  [{ data: { type: 'object' } }, 'HF_INVALID_OPTION', 'Standard Schema'],
  [{ retry: { maxAttempts: 0 } }, 'HF_INVALID_OPTION', 'maxAttempts'],
  [{ version: 0 }, 'HF_INVALID_OPTION', 'version'],
  [{ timeout: 'long' }, 'HF_INVALID_DURATION', 'long'],
  [{ timeout: '30d' }, 'HF_INVALID_OPTION', 'timeout'],
  [{ timeout: 0 }, 'HF_INVALID_OPTION', 'timeout'],
  [{ retry: 'often' }, 'HF_INVALID_OPTION', 'retry'],
])('K-13 a definition with %j is refused', (options, code, said) => {
  expect(() => defineCommand('pay', 'Bad', options as never)).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(said) }),
  )
})

test.each([[''], [' '], ['x'.repeat(201)], ['a\u0000b'], [7]])('K-13 the type %j is refused', (type) => {
  expect(() => defineCommand('pay', type as string)).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
})

test('C-06 a second handler, or one that is not a function, is refused', () => {
  const Do = defineCommand('handlers', 'Do')
  bus.hf.handle(Do, () => null)
  expect(() => bus.hf.handle(Do, () => null)).toThrow(expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION' }))
  const Other = defineCommand('handlers', 'Other')
  expect(() => bus.hf.handle(Other, 'book' as never)).toThrow(
    expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining('function') }),
  )
})

test.each([
  [{ domains: ['nobody'] }, 'nobody'],
  [{ domains: 'handlers' }, 'list'],
  [{ retry: { maxAttempts: 0 } }, 'maxAttempts'],
  [{ retry: ['x'] }, 'x'],
  [{ concurency: 1 }, 'did you mean `concurrency`?'],
])('K-13 a worker with %j is refused, and no queue is made', async (options, said) => {
  await expect(bus.hf.run(options as never)).rejects.toMatchObject({
    name: 'HoldfastError',
    message: expect.stringContaining(said),
  })
  expect(await bus.hf.queues.exists('nobody__commands')).toBe(false)
})

test.each([
  ['what PostgreSQL cannot hold', 'a\u0000b'],
  ['a function', () => null],
  [
    'a circle',
    (() => {
      const circle: Record<string, unknown> = {}
      circle.self = circle
      return circle
    })(),
  ],
  ['more than a megabyte', 'x'.repeat(1_100_000)],
])('a payload that is %s is refused, and others sent at the same moment are not', async (_, data) => {
  const Any = defineCommand('any', 'Any')
  const [bad, good] = await Promise.allSettled([bus.hf.send(Any, data), bus.hf.send(Any, 'good')])
  expect(bad).toMatchObject({ status: 'rejected', reason: { name: 'HoldfastError' } })
  expect(good.status).toBe('fulfilled')
})

test.each([
  ['a function', () => () => null],
  [
    'a circle',
    () => {
      const circle: Record<string, unknown> = {}
      circle.self = circle
      return circle
    },
  ],
  ['what PostgreSQL cannot hold', () => 'a\u0000b'],
  ['more than a megabyte', () => 'x'.repeat(1_100_000)],
])('a result that is %s fails that command only', async (what, result) => {
  const Do = defineCommand(`result-${what.replaceAll(' ', '-').toLowerCase().slice(0, 12)}`, 'Do')
  const [bad, good] = (await bus.hf.sendMany(Do, [{ data: 'bad' }, { data: 'good' }])).map(({ id }) => id)
  await bus.work(Do, (data) => (data === 'bad' ? result() : 'good'))
  expect(await bus.hf.command(Do, good ?? '').result()).toBe('good')
  const command = await waitFor('the bad one is in troubleshooting', async () => {
    const found = await bus.hf.command(Do, bad ?? '').get()
    return found.status === 'IN_TROUBLESHOOTING_QUEUE' ? found : undefined
  })
  expect(command.error).toMatchObject({ kind: 'PERMANENT', code: 'RESULT_NOT_ENCODABLE' })
  expect(command.attempts).toBe(1)
})

test('an error message that PostgreSQL cannot hold is stored as far as it can be', async () => {
  const Do = defineCommand('odd-errors', 'Do', { retry: { maxAttempts: 1 } })
  await bus.work(Do, () => {
    throw new Error('nul \u0000 and \ud800')
  })
  const { id } = await bus.hf.send(Do, null)
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'odd-errors' })) === 1,
  )
  expect((await bus.hf.command(Do, id).get()).error?.message).toContain('nul')
})

test('a dropped queue is created again by the next send, and other domains are not disturbed', async () => {
  const [Here, There] = [defineCommand('dropped', 'Do'), defineCommand('kept', 'Do')]
  await bus.hf.send(Here, 1)
  await bus.hf.send(There, 1)
  await bus.sql(`select pgmq.drop_queue('dropped__commands')`)
  const answers = await Promise.allSettled([bus.hf.send(Here, 2), bus.hf.send(There, 2), bus.hf.send(Here, 3)])
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
  await bus.work(Here, (data) => data)
  const [sent] = answers.filter((answer) => answer.status === 'fulfilled')
  expect(await sent?.value.result()).toBe(2)
})

test('C-06 a result that does not fit its schema fails that command only, also inside its transaction', async () => {
  const Do = defineCommand('result-schema', 'Do', { data: z.boolean(), result: z.object({ n: z.int() }) })
  bus.hf.handle(Do, async (inTransaction, ctx) => {
    const bad = { n: 'not a number' } as unknown as { n: number }
    return inTransaction ? ctx.transaction(async () => bad) : bad
  })
  const worker = await bus.hf.run({ domains: ['result-schema'] })
  for (const inTransaction of [false, true]) {
    const { id } = await bus.hf.send(Do, inTransaction)
    await waitFor(
      'it is in troubleshooting',
      async () => (await bus.hf.command(Do, id).get()).status === 'IN_TROUBLESHOOTING_QUEUE',
    )
    const { error } = await bus.hf.command(Do, id).get()
    expect(error).toMatchObject({ kind: 'PERMANENT', code: 'INVALID_RESULT', message: expect.stringContaining('n') })
  }
  await worker.stop()
})
