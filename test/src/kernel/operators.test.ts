import { failsWithin, openTestBus, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, PermanentError } from 'holdfast'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'

const bus = await openTestBus()
afterAll(() => bus.close())
const by = { actor: 'ann', reason: 'test' }

/** Another transaction that holds what the statement locks, until told otherwise. */
async function hold(text: string, params: unknown[]): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('begin')
  await client.query(text, params)
  return async () => void (await client.query('commit'))
}

const answer = (call: Promise<unknown>) => failsWithin(5_000, call)

const Broken = defineProcess('operators', 'Broken', {
  state: z.object({}),
  execute: (ctx) =>
    ctx.step('fail', () => {
      throw new PermanentError('broken')
    }),
})
const BrokenCommand = defineCommand('operators', 'BrokenCommand')
bus.hf.register(Broken)
bus.hf.handle(BrokenCommand, () => {
  throw new PermanentError('broken')
})
await bus.hf.run({ poll: '50ms' })

const statusOf = async (id: string) =>
  (await bus.sql<{ status: string }>('select status from holdfast.process where id = $1', [id]))[0]?.status

async function brokenProcess(): Promise<string> {
  const { id } = await bus.hf.start(Broken, {}, { immediate: false })
  await waitFor('it waits for a person', async () => (await statusOf(id)) === 'WAITING_FOR_TSQ')
  return id
}

const OPERATIONS = {
  retry: (id: string) => bus.hf.process(Broken, id).retry(by),
  cancel: (id: string) => bus.hf.process(Broken, id).cancel(by, { compensate: false }),
  complete: (id: string) => bus.hf.process(Broken, id).complete(by),
}

test.each(Object.entries(OPERATIONS))(
  'K-23 %s of a process whose row another transaction has locked is refused with HF_BUSY within 5 s and never takes effect',
  async (_, operate) => {
    const id = await brokenProcess()
    const letGo = await hold('select from holdfast.process where id = $1 for update', [id])
    expect(await answer(operate(id))).toMatchObject({ code: 'HF_BUSY' })
    await letGo()
    expect(await statusOf(id)).toBe('WAITING_FOR_TSQ')
    const events = await bus.sql("select from holdfast.audit where subject_id = $1 and actor = 'ann'", [id])
    expect(events).toEqual([])
  },
)

test('K-23 of many processes only the locked one is refused', async () => {
  const ids = [await brokenProcess(), await brokenProcess(), await brokenProcess()]
  const letGo = await hold('select from holdfast.process where id = $1 for update', [ids[1]])
  const answers = await bus.hf.trouble.cancel(ids, by, { compensate: false })
  await letGo()
  expect(answers.map(({ outcome }) => outcome)).toEqual(['done', 'refused', 'done'])
  expect(answers[1]).toMatchObject({ code: 'HF_BUSY' })
})

test('K-23 operations on a locked command are refused with HF_BUSY within 5 s, and of many only the locked one is refused', async () => {
  const sent = await Promise.all([1, 2, 3].map(() => bus.hf.send(BrokenCommand, {})))
  const ids = sent.map(({ id }) => id)
  await waitFor(
    'all wait for a person',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'operators' })) === 3,
  )
  const letGo = await hold('select from holdfast.command_trouble where command_id = $1 for update', [ids[1]])
  expect(await answer(bus.hf.command(BrokenCommand, ids[1] ?? '').retry(by))).toMatchObject({ code: 'HF_BUSY' })
  const results = await bus.hf.trouble.cancel(ids, by)
  expect(results.map(({ code }) => code)).toEqual([undefined, 'HF_BUSY', undefined])
  await letGo()
  expect(await bus.hf.trouble.count({ model: 'commands', domain: 'operators' })).toBe(1)
})

test('K-23 a pause that another transaction has locked is refused with HF_BUSY within 5 s', async () => {
  const letGo = await hold(
    "insert into holdfast.pause (subject, paused_at, actor, reason) values ('domain:operators', now(), 'x', 'x')",
    [],
  )
  expect(await answer(bus.hf.pause({ domain: 'operators' }, by))).toMatchObject({ code: 'HF_BUSY' })
  await letGo()
  expect(await bus.hf.resume({ domain: 'operators' }, by)).toBe(true)
})
