import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { type CommandDefinition, defineCommand } from './define.js'
import type { CommandOf } from './reference.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const { list, count, groups } = {
  list: async (domain: string) => (await bus.hf.trouble.list({ model: 'commands', domain })).items,
  count: (domain: string) => bus.hf.trouble.count({ model: 'commands', domain }),
  groups: (domain: string) => bus.hf.trouble.groups({ model: 'commands', domain }),
}
/** Sends commands that fail, and waits until all are in troubleshooting. */
async function troubled<Input>(command: CommandDefinition<Input>, data: readonly NoInfer<Input>[]): Promise<string[]> {
  const ids = (
    await bus.hf.sendMany(
      command,
      data.map((one) => ({ data: one })),
    )
  ).map(({ id }) => id)
  await waitFor('they are in troubleshooting', async () => (await count(command.domain)) === data.length)
  return ids
}
const failing = (domain: string, message = (data: unknown) => `account ${String(data)} is locked`) => {
  const Do = defineCommand(domain, 'Do')
  return { Do, handler: (data: unknown) => Promise.reject(new PermanentError(message(data), { code: 'LOCKED' })) }
}

test('C-13 troubleshooting is listed with its error, counted, and filtered by domain and type', async () => {
  const { Do, handler } = failing('listed')
  const Other = defineCommand('listed', 'Other')
  bus.hf.handle(Other, handler)
  await bus.work(Do, handler)
  const [id] = await troubled(Do, [7])
  await bus.hf.send(Other, 8)
  await waitFor('both are there', async () => (await count('listed')) === 2)
  expect((await list('listed')).find((record) => record.id === id)).toMatchObject({
    domain: 'listed',
    type: 'Do',
    attempts: 1,
    kind: 'PERMANENT',
    code: 'LOCKED',
    message: 'account 7 is locked',
  })
  expect(await bus.hf.trouble.count({ model: 'commands', domain: 'listed', type: 'Other' })).toBe(1)
  expect((await bus.hf.trouble.list({ model: 'commands', domain: 'listed', limit: 1 })).items).toHaveLength(1)
  expect(await list('nowhere')).toEqual([])
})

test('C-13 failures of one code and shape are one group, which can be listed by its fingerprint', async () => {
  const { Do, handler } = failing('grouped', (n) =>
    Number(n) < 5 ? `account ${String(n)} is locked` : 'the vault is closed',
  )
  await bus.work(Do, handler)
  await troubled(Do, [1, 2, 3, 9])
  const [first, second] = await groups('grouped')
  expect(first).toMatchObject({
    count: 3,
    code: 'LOCKED',
    type: 'Do',
    sample: { message: expect.stringContaining('is locked') },
  })
  expect(second).toMatchObject({ count: 1, sample: { message: 'the vault is closed' } })
  if (!first) throw new Error('no group')
  const { fingerprint, firstSeen, lastSeen } = first
  const alike = (await bus.hf.trouble.list({ model: 'commands', domain: 'grouped', fingerprint })).items
  expect(new Set(alike.map(({ message }) => message))).toEqual(new Set([1, 2, 3].map((n) => `account ${n} is locked`)))
  expect(alike.map(({ since }) => since.getTime())).toContain(firstSeen.getTime())
  expect(lastSeen.getTime()).toBeGreaterThanOrEqual(firstSeen.getTime())
})

test('C-13 a retry begins again at the first attempt, and is audited with actor and reason', async () => {
  const Do = defineCommand('retried', 'Do', { retry: { maxAttempts: 2, delays: ['1ms'] } })
  const attempts: number[] = []
  await bus.work(Do, (_, ctx) => {
    attempts.push(ctx.attempt)
    if (attempts.length <= 3) throw new Error('not yet')
    return 'done'
  })
  const [id = ''] = await troubled(Do, [1])
  expect((await bus.hf.command(Do, id).get()).attempts).toBe(2)
  await bus.hf.command(Do, id).retry(by)
  expect(await bus.hf.command(Do, id).result()).toBe('done')
  expect(attempts).toEqual([1, 2, 1, 2])
  expect(await count('retried')).toBe(0)
  const { error } = await bus.hf.command(Do, id).get()
  const audit = await bus.hf.command(Do, id).history()
  expect(audit.map(({ event }) => event).slice(4, 7)).toEqual(['MOVED_TO_TSQ', 'OPERATOR_RETRY', 'RECEIVED'])
  expect(audit[5]).toMatchObject({
    actor: 'ann',
    reason: 'ticket 7',
    before: { attempts: 2 },
    after: { status: 'PENDING' },
  })
  expect(error).toBeNull()
})

test('C-13 a retry with edited data is checked by the schema, and the handler gets what was edited', async () => {
  const Pay = defineCommand('edited', 'Pay', {
    data: z.object({ iban: z.string().length(4), at: z.date().optional() }),
  })
  await bus.work(Pay, ({ iban, at }) => {
    if (iban === 'BAD1') throw new PermanentError('unknown account')
    return { iban, at }
  })
  const [id = ''] = await troubled(Pay, [{ iban: 'BAD1' }])
  await expect(bus.hf.command(Pay, id).retry(by, { data: { iban: 'TOO LONG' } })).rejects.toMatchObject({
    code: 'HF_INVALID_DATA',
    details: { path: '$.iban' },
  })
  expect(await count('edited')).toBe(1)
  const at = new Date(0)
  await bus.hf.command(Pay, id).retry(by, { data: { iban: 'GOOD', at } })
  expect(await bus.hf.command(Pay, id).result()).toEqual({ iban: 'GOOD', at })
  const { data } = await bus.hf.command(Pay, id).get()
  const audit = await bus.hf.command(Pay, id).history()
  expect(data).toEqual({ iban: 'GOOD', at })
  expect(audit.find(({ event }) => event === 'OPERATOR_RETRY')).toMatchObject({
    before: { data: { iban: 'BAD1' } },
    after: { data: { iban: 'GOOD' } },
  })
})

test('C-13 data edited without the definition is checked by the worker', async () => {
  const Pay = defineCommand('edited-raw', 'Pay', { data: z.object({ iban: z.string().max(4) }) })
  await bus.work(Pay, () => {
    throw new PermanentError('unknown account')
  })
  const [id = ''] = await troubled(Pay, [{ iban: 'BAD1' }])
  await bus.hf.command({ domain: 'edited-raw', type: 'Pay' }, id).retry(by, { data: { iban: 'TOO LONG' } as never })
  await waitFor('it is back', async () => (await list('edited-raw'))[0]?.code === 'INVALID_DATA')
})

test('C-13 an operator completes with a result or cancels; it ends so, and is audited', async () => {
  const { Do, handler } = failing('ended')
  await bus.work(Do, handler)
  const [completed = '', cancelled = ''] = await troubled(Do, [1, 2])
  await bus.hf.command(Do, completed).complete(by, { at: new Date(0) })
  expect(await bus.hf.command(Do, completed).result()).toEqual({ at: new Date(0) })
  await bus.hf.command(Do, cancelled).cancel(by)
  await expect(bus.hf.command(Do, cancelled).result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    details: { status: 'CANCELLED' },
  })
  expect(await bus.hf.command(Do, completed).get()).toMatchObject({ status: 'COMPLETED', error: null })
  expect((await bus.events(completed)).at(-1)).toBe('OPERATOR_COMPLETE')
  expect((await bus.events(cancelled)).at(-1)).toBe('OPERATOR_CANCEL')
  expect(await count('ended')).toBe(0)
})

test.each(['retry', 'complete'] as const)(
  'C-13 %s is refused unless the command is in troubleshooting',
  async (action) => {
    const Do = defineCommand(`refused-${action}`, 'Do')
    const { id: pending } = await bus.hf.send(Do, null)
    const act = (command: CommandOf, id: string, actor = by) => bus.hf.command(command, id)[action](actor)
    await expect(act(Do, pending)).rejects.toMatchObject({
      code: 'HF_WRONG_STATUS',
      message: expect.stringContaining(pending),
    })
    await expect(act(Do, randomUUID())).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    await expect(act({ domain: 'no-such-domain', type: 'Do' }, pending)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    await expect(act({ domain: Do.domain, type: 'Other' }, pending)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    await expect(act(Do, 'PAY-1')).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    await expect(act(Do, pending, { actor: 'ann', reason: ' ' })).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
    await bus.work(Do, () => 'done')
    expect(await bus.hf.command(Do, pending).result()).toBe('done')
    await expect(act(Do, pending)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    expect(await bus.hf.command(Do, pending).get()).toMatchObject({ status: 'COMPLETED', result: 'done' })
  },
)

test('C-13 in bulk each command gets its own result', async () => {
  const { Do, handler } = failing('bulk')
  await bus.work(Do, handler)
  const [one = '', two = '', three = ''] = await troubled(Do, [1, 2, 3])
  const unknown = randomUUID()
  expect(await bus.hf.trouble.cancel([one, unknown], by)).toMatchObject([
    { id: unknown, outcome: 'refused', code: 'HF_UNKNOWN_TROUBLE' },
    { id: one, outcome: 'done' },
  ])
  expect(await bus.hf.trouble.complete([two], by, { result: 'by hand' })).toMatchObject([{ id: two, outcome: 'done' }])
  expect(await bus.hf.trouble.retry([three], by)).toMatchObject([{ id: three, outcome: 'done' }])
  expect((await bus.hf.command(Do, two).get()).result).toBe('by hand')
  await waitFor('the third is back', async () => (await count('bulk')) === 1)
})

test('C-13 of two operators who act at once, one is refused', async () => {
  const { Do, handler } = failing('at-once')
  await bus.work(Do, handler)
  const [id = ''] = await troubled(Do, [1])
  const answers = await Promise.allSettled([bus.hf.command(Do, id).cancel(by), bus.hf.command(Do, id).complete(by)])
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const operated = (await bus.events(id)).filter((event) => event.startsWith('OPERATOR_'))
  expect(operated).toHaveLength(1)
})

test('C-13 listing troubleshooting does not read all commands', async () => {
  const { Do, handler } = failing('indexed')
  const Quiet = defineCommand('indexed', 'Quiet')
  await bus.hf.sendMany(
    Quiet,
    Array.from({ length: 5_000 }, () => ({ data: null, delay: '1d' as const })),
  )
  await bus.work(Do, handler)
  await troubled(Do, [1, 2])
  await bus.sql('analyze holdfast.command, holdfast.command_trouble')
  const scans = async () => {
    const [row] = await bus.sql<{ seq: number; idx: number }>(
      `select seq_scan::int as seq, idx_scan::int as idx from pg_stat_user_tables where relname = 'command'`,
    )
    return row ?? { seq: 0, idx: 0 }
  }
  await bus.hf.close()
  bus = await openTestBus({ connectionString: bus.connectionString })
  const before = await scans()
  for (let time = 0; time < 20; time += 1) expect(await list('indexed')).toHaveLength(2)
  // Connections report what they did when they close.
  await bus.close()
  bus = await openTestBus({ connectionString: bus.connectionString })
  const after = await waitFor('the statistics are in', async () => {
    const now = await scans()
    return now.idx - before.idx >= 20 ? now : undefined
  })
  expect(after.seq - before.seq).toBeLessThan(20)
})

test('C-07 a command in troubleshooting is not received again', async () => {
  const Do = defineCommand('left-alone', 'Do')
  let calls = 0
  await bus.work(Do, () => {
    calls += 1
    throw new PermanentError('no')
  })
  await troubled(Do, [1])
  await bus.moveClock(24 * 3_600_000)
  await bus.hf.command(Do, (await list('left-alone'))[0]?.id ?? '').get()
  const Probe = defineCommand('left-alone', 'Probe')
  bus.hf.handle(Probe, () => 'seen')
  await (await bus.hf.send(Probe, null)).result()
  expect(calls).toBe(1)
})

test('C-13 a command that is retried has all its attempts again, and shows none until it is called', async () => {
  const Do = defineCommand('again', 'Do', { retry: { maxAttempts: 2, delays: ['10ms'] } })
  const attempts: number[] = []
  const worker = await bus.work(Do, (_, { attempt }) => {
    attempts.push(attempt)
    throw new Error('not yet')
  })
  const [id = ''] = await troubled(Do, [1])
  expect(attempts).toEqual([1, 2])
  await worker.stop()

  await bus.hf.command(Do, id).retry(by)
  expect(await bus.hf.command(Do, id).get()).toMatchObject({ status: 'PENDING', attempts: 0, error: null })
  await bus.hf.run({ domains: ['again'], poll: '20ms' })
  await waitFor('it is in troubleshooting again', async () => (await count('again')) === 1)
  expect(attempts).toEqual([1, 2, 1, 2])
})
