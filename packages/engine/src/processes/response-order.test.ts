import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
let other: TestBus
let caller: pg.Client
let second: pg.Client
beforeAll(async () => {
  bus = await openTestBus()
  other = await openTestBus({ connectionString: bus.connectionString })
  caller = new pg.Client({ connectionString: bus.connectionString })
  second = new pg.Client({ connectionString: bus.connectionString })
  await Promise.all([caller.connect(), second.connect()])
})
afterAll(async () => {
  await Promise.all([caller.end(), second.end()])
  await Promise.all([other.close(), bus.close()])
})

const domain = numbered('ordered')
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

/** A process that notes what it is told, in order, until it was told so often. */
function listening(count: number) {
  return defineProcess(domain(), 'Listening', {
    state: z.object({ heard: z.array(z.number()).default([]) }),
    responses: {
      told: {
        data: z.number(),
        apply: (state: { heard: number[] }, n: number) => {
          state.heard.push(n)
        },
      },
    },
    async execute(ctx, state) {
      await ctx.wait('all', () => state.heard.length === count)
      return state.heard
    },
  })
}

const respondInSql = (client: pg.Client, process: { domain: string; type: string }, reference: string, n: number) =>
  client.query('select holdfast.respond($1, $2, $3, $4, $5)', [process.domain, process.type, reference, 'told', n])

test('K-25 responses that one caller commits one after the other through SQL are applied in that order', async () => {
  const Listening = listening(100)
  const [one, two] = await Promise.all([bus.hf.start(Listening, {}), bus.hf.start(Listening, {}, { key: 'TWO' })])
  const workers = [await bus.runProcesses(Listening), await other.runProcesses(Listening)]
  for (const n of upTo(100)) {
    await respondInSql(caller, Listening, one.id, n)
    // By its id and by its key.
    await respondInSql(caller, Listening, n % 3 === 0 ? two.id : 'TWO', n)
  }
  expect(await bus.hf.process(Listening, one.id).result()).toEqual(upTo(100))
  expect(await bus.hf.process(Listening, two.id).result()).toEqual(upTo(100))
  await Promise.all(workers.map((worker) => worker.stop()))
})

test('K-25 a backlog that was there before the worker is applied in order', async () => {
  const Listening = listening(200)
  const { id } = await bus.hf.start(Listening, {})
  const worker = await bus.runProcesses(Listening)
  await worker.stop()
  await caller.query('begin')
  for (const n of upTo(100)) await respondInSql(caller, Listening, id, n)
  await caller.query('commit')
  for (const n of upTo(100)) {
    if (n % 2 === 0) await bus.hf.process(Listening, id).respond('told', 100 + n)
    else {
      await caller.query('begin')
      await bus.hf.process(Listening, id).respond('told', 100 + n, { transaction: caller })
      await caller.query('commit')
    }
  }
  const workers = await Promise.all([other.runProcesses(Listening), other.hf.run({ domains: [Listening.domain] })])
  expect(await bus.hf.process(Listening, id).result()).toEqual(upTo(200))
  await Promise.all(workers.map((one) => one.stop()))
})

test('K-25 the order of overlapping transactions of one caller is that of their commits', async () => {
  const Listening = listening(4)
  const { id } = await bus.hf.start(Listening, {})
  await (await bus.runProcesses(Listening)).stop()
  await caller.query('begin')
  await bus.hf.process(Listening, id).respond('told', 2, { transaction: caller })
  await second.query('begin')
  await respondInSql(second, Listening, id, 0)
  await respondInSql(caller, Listening, id, 3)
  await respondInSql(second, Listening, id, 1)
  await second.query('commit')
  await caller.query('commit')
  const worker = await other.runProcesses(Listening)
  expect(await bus.hf.process(Listening, id).result()).toEqual([0, 1, 2, 3])
  await worker.stop()
})

test('K-25 a response outside of a transaction does not overtake one that its caller committed before', async () => {
  const Listening = listening(3)
  const { id } = await bus.hf.start(Listening, {})
  await (await bus.runProcesses(Listening)).stop()
  await respondInSql(caller, Listening, id, 0)
  await bus.hf.process(Listening, id).respond('told', 1, { responseId: 'once' })
  await bus.hf.process(Listening, id).respond('told', 1, { responseId: 'once' })
  await respondInSql(caller, Listening, id, 2)
  const worker = await other.runProcesses(Listening)
  expect(await bus.hf.process(Listening, id).result()).toEqual([0, 1, 2])
  // With the inbox empty it is recorded at once.
  await waitFor('the inbox is empty', async () => (await bus.sql('select from holdfast.process_inbox')).length === 0)
  await worker.stop()
})

test('K-25 responses that follow those of a worker that died wait for them', async () => {
  const Listening = listening(3)
  const { id } = await bus.hf.start(Listening, {})
  await (await bus.runProcesses(Listening)).stop()
  await respondInSql(caller, Listening, id, 0)
  await respondInSql(caller, Listening, id, 1)
  const claim = () =>
    bus.sql<{ items: { responses: { data: number }[] }[] }>(
      `select items from holdfast.claim_inbox_groups(array[$1], array[null]::float8[], 'dead', 10, 60000, false, 1000)`,
      [Listening.name],
    )
  expect((await claim())[0]?.items).toMatchObject([{ responses: [{ data: 0 }, { data: 1 }] }])
  await respondInSql(caller, Listening, id, 2)
  expect((await claim())[0]?.items).toEqual([])
  // Behind the lease, it is not even looked at again.
  const due = await bus.sql('select from holdfast.process_inbox where type = $1 and due_at <= holdfast.now()', [
    Listening.name,
  ])
  expect(due).toHaveLength(0)
  const worker = await other.runProcesses(Listening)
  await bus.moveClock(60_001)
  expect(await bus.hf.process(Listening, id).result()).toEqual([0, 1, 2])
  await worker.stop()
})

test('K-25 a response that does not fit its schema is refused alone, and the others keep their order', async () => {
  const Listening = listening(2)
  const { id } = await bus.hf.start(Listening, {})
  await (await bus.runProcesses(Listening)).stop()
  await respondInSql(caller, Listening, id, 0)
  await caller.query('select holdfast.respond($1, $2, $3, $4, $5)', [
    Listening.domain,
    Listening.type,
    id,
    'told',
    '"no number"',
  ])
  await respondInSql(caller, Listening, id, 1)
  const worker = await other.runProcesses(Listening)
  expect(await bus.hf.process(Listening, id).result()).toEqual([0, 1])
  // Its refusal is written with the end of the inbox's lease, after the responses that fitted.
  await waitFor('the refusal is on record', async () => (await bus.events(id)).includes('RESPONSE_REFUSED'))
  await worker.stop()
})

test.each([
  ['a type that nobody knows', 'Lissening', /HF_NOT_FOUND: there is no process ordered-\d+\/Lissening/],
  ['the type of another process', 'Other', /is a ordered-\d+\/Listening, not a ordered-\d+\/Other/],
])('P-11 SQL respond refuses %s', async (_, type, message) => {
  const Listening = listening(1)
  const Other = defineProcess(Listening.domain, 'Other', { state: z.object({}), execute: async () => undefined })
  bus.hf.register(Other)
  const worker = await bus.runProcesses(Listening)
  const { id } = await bus.hf.start(Listening, {}, { key: 'L' })
  const wrong = { domain: Listening.domain, type }
  await expect(respondInSql(caller, wrong, type === 'Other' ? id : 'L', 1)).rejects.toMatchObject({
    code: '22023',
    message: expect.stringMatching(message),
  })
  await worker.stop()
})

test('P-11 SQL respond takes a response for a process that is started by a transaction which has not committed yet', async () => {
  const Listening = listening(1)
  const worker = await bus.runProcesses(Listening)
  await caller.query('begin')
  const { id } = await bus.hf.start(Listening, {}, { key: 'EARLY', transaction: caller })
  await respondInSql(second, Listening, 'EARLY', 7)
  await caller.query('commit')
  expect(await bus.hf.process(Listening, id).result()).toEqual([7])
  await worker.stop()
})
