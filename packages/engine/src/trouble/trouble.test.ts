import { observeWorkflows, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, expectTypeOf, test } from 'vitest'
import type { BulkResult, Model, Page, Trouble, TroubleGroup } from '../index.js'
import { by, openTrouble } from './trouble.fixture.js'

const { bus, hf, failing } = await openTrouble()
const see = observeWorkflows(bus)
afterAll(() => bus.close())

type Ids = Readonly<Record<Model, string>>
/** Which work and which failure of it a result is about. */
const about = (model: Model, ids: Ids, step?: string) => ({
  model,
  domain: expect.any(String),
  type: expect.any(String),
  id: ids[model],
  ...(step === undefined ? {} : { step }),
  failureId: expect.any(String),
})
const done = (model: Model, ids: Ids, step?: string): BulkResult => ({ ...about(model, ids, step), outcome: 'done' })
const sorted = (results: readonly BulkResult[]) =>
  results.toSorted((a, b) => ((a.model ?? '') < (b.model ?? '') ? -1 : 1))
const command = async (id: string) =>
  (await bus.sql('select status, result from holdfast.command where command_id = $1', [id]))[0]
const item = async (id: string) =>
  (await bus.sql('select status from holdfast.dispatch_item where item_id = $1', [id]))[0]

test('U-06 one list shows what needs a person in all models, newest first, with what can be done', async () => {
  const { type, oneOfEach } = failing()
  const ids = await oneOfEach()
  const { items, cursor } = await hf.trouble.list({ type })
  expect(cursor).toBeUndefined()
  expect(items.map(({ since }) => since.getTime())).toEqual(
    items.map(({ since }) => since.getTime()).toSorted((a, b) => b - a),
  )
  const byModel = Object.fromEntries(items.map((record) => [record.model, record]))
  const common = {
    domain: expect.any(String),
    type,
    since: expect.any(Date),
    failureId: expect.stringMatching(/^\d{16}$/),
    assignedTo: null,
    compensating: false,
    fingerprint: expect.any(String),
  }
  expect(byModel).toEqual({
    commands: {
      ...common,
      model: 'commands',
      id: ids.commands,
      key: null,
      step: null,
      code: 'BROKEN',
      kind: 'PERMANENT',
      message: 'pay does not work',
      attempts: 1,
      stack: expect.stringContaining('trouble.fixture'),
      can: ['retry', 'complete', 'cancel'],
      outcomeUnknown: false,
    },
    processes: {
      ...common,
      model: 'processes',
      id: ids.processes,
      key: null,
      step: 'pay',
      code: 'BROKEN',
      kind: 'PERMANENT',
      message: 'pay does not work',
      attempts: 1,
      stack: expect.stringContaining('trouble.fixture'),
      can: ['retry', 'complete', 'cancel', 'skip'],
      outcomeUnknown: false,
    },
    workflows: {
      ...common,
      model: 'workflows',
      id: ids.workflows,
      key: null,
      step: 'pay',
      code: 'BROKEN',
      kind: 'PERMANENT',
      message: 'pay does not work',
      attempts: 1,
      stack: expect.stringContaining('trouble.fixture'),
      can: ['retry', 'complete', 'cancel', 'skip'],
      outcomeUnknown: false,
    },
    dispatch: {
      ...common,
      model: 'dispatch',
      id: ids.dispatch,
      key: ids.dispatch,
      step: null,
      code: expect.any(String),
      kind: 'TRANSIENT',
      message: expect.any(String),
      attempts: expect.any(Number),
      stack: null,
      can: ['retry', 'complete', 'cancel'],
      outcomeUnknown: false,
    },
  })
})

test('U-06 every filter narrows the list, the count and the groups alike', async () => {
  const { type, oneOfEach } = failing()
  const ids = await oneOfEach()
  const found = async (filter: Parameters<typeof hf.trouble.list>[0]) => {
    const { items } = await hf.trouble.list({ type, ...filter })
    const groups = await hf.trouble.groups({ type, ...filter })
    expect(await hf.trouble.count({ type, ...filter })).toBe(items.length)
    expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(items.length)
    return items.map(({ model }) => model).toSorted()
  }
  expect(await found({})).toEqual(['commands', 'dispatch', 'processes', 'workflows'])
  expect(await found({ model: 'processes' })).toEqual(['processes'])
  expect(await found({ model: ['commands', 'dispatch'] })).toEqual(['commands', 'dispatch'])
  expect(await found({ model: 'workflows', type })).toEqual(['workflows'])
  expect(await found({ id: ids.workflows })).toEqual(['workflows'])
  expect(await found({ id: ids.dispatch })).toEqual(['dispatch'])
  expect(await found({ step: 'pay' })).toEqual(['processes', 'workflows'])
  expect(await found({ code: 'BROKEN' })).toEqual(['commands', 'processes', 'workflows'])
  expect(await found({ domain: 'nowhere' })).toEqual([])
  const [process] = (await hf.trouble.list({ type, model: 'processes' })).items
  expect(process?.id).toBe(ids.processes)
  expect(await found({ fingerprint: process?.fingerprint ?? '' })).toEqual(['commands', 'processes', 'workflows'])
  const since = process?.since ?? new Date(0)
  expect(await found({ since: new Date(since.getTime() + 600_000) })).toEqual([])
  expect(await found({ until: new Date(since.getTime() - 600_000) })).toEqual([])
  expect(
    await found({ since: new Date(since.getTime() - 600_000), until: new Date(since.getTime() + 600_000) }),
  ).toHaveLength(4)
})

test('U-06 pages follow each other by cursor, also through many that failed at the same moment', async () => {
  const { type, Pay, troubles } = failing()
  await hf.sendMany(
    Pay,
    Array.from({ length: 7 }, (_, n) => ({ data: { n } })),
  )
  await troubles(7)
  await bus.sql(`update holdfast.command_trouble set since = '2030-01-01 00:00:00.123456+00' where type = $1`, [type])
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page: Page<Trouble> = await hf.trouble.list({ type, limit: 3, ...(cursor === undefined ? {} : { cursor }) })
    seen.push(...page.items.map(({ id }) => id))
    cursor = page.cursor
  } while (cursor !== undefined)
  expect(seen).toHaveLength(7)
  expect(new Set(seen)).toHaveLength(7)
})

test('U-06 failures of the same kind are one group, the most frequent first, with a sample', async () => {
  const { type, send, startProcess, troubles } = failing()
  const first = await send()
  await troubles(1)
  const ids = [await startProcess(), await startProcess()]
  await troubles(3)
  const groups = await hf.trouble.groups({ type })
  expectTypeOf(groups).toEqualTypeOf<TroubleGroup[]>()
  expect(groups).toEqual([
    {
      model: 'processes',
      domain: type,
      type,
      step: 'pay',
      code: 'BROKEN',
      fingerprint: expect.any(String),
      count: 2,
      firstSeen: expect.any(Date),
      lastSeen: expect.any(Date),
      sample: { id: expect.any(String), message: 'pay does not work', failureId: expect.any(String) },
      filter: { type },
    },
    expect.objectContaining({
      model: 'commands',
      count: 1,
      sample: { id: first, message: 'pay does not work', failureId: expect.any(String) },
    }),
  ])
  expect(ids).toContain(groups[0]?.sample.id)
  expect(await hf.trouble.groups({ type, limit: 1 })).toHaveLength(1)
})

test('U-06 retry by a filter over four models retries all of them, and is audited', async () => {
  const { type, broken, calls, oneOfEach } = failing()
  const ids = await oneOfEach()
  broken.clear()
  const results = await hf.trouble.retry({ type }, by)
  expectTypeOf(results).toEqualTypeOf<BulkResult[]>()
  expect(sorted(results)).toEqual([
    done('commands', ids),
    done('dispatch', ids),
    done('processes', ids, 'pay'),
    done('workflows', ids, 'pay'),
  ])
  expect(await hf.trouble.count({ type })).toBe(0)
  await waitFor('the command is done', async () => (await command(ids.commands))?.status === 'COMPLETED')
  await bus.rests(ids.processes, 'COMPLETED')
  await see.until(ids.workflows, 'COMPLETED')
  expect(await item(ids.dispatch)).toMatchObject({ status: 'READY' })
  expect(calls.filter((call) => call === 'pay')).toHaveLength(6)
  for (const id of [ids.commands, ids.processes, ids.workflows]) {
    const acted = (await hf.auditTrail({ id })).filter(({ actor }) => actor === 'ann')
    expect(acted).toMatchObject([{ reason: 'ticket 7' }])
  }
})

test('U-06 complete ends commands, processes and items, and lets a workflow go on with the result', async () => {
  const { type, broken, calls, oneOfEach } = failing()
  const ids = await oneOfEach()
  broken.clear()
  calls.length = 0
  const results = await hf.trouble.complete({ type }, by, { result: 'by hand' })
  expect(sorted(results)).toEqual([
    done('commands', ids),
    {
      ...about('dispatch', ids),
      outcome: 'refused',
      code: 'HF_INVALID_OPTION',
      message: expect.stringContaining('no result'),
    },
    done('processes', ids, 'pay'),
    done('workflows', ids, 'pay'),
  ])
  expect(await hf.trouble.complete([ids.dispatch], by)).toEqual([done('dispatch', ids)])
  expect(await command(ids.commands)).toEqual({ status: 'COMPLETED', result: 'by hand' })
  expect(await bus.process(ids.processes)).toMatchObject({ status: 'COMPLETED', result: 'by hand' })
  expect((await see.until(ids.workflows, 'COMPLETED')).output).toEqual(['by hand', 'tell'])
  expect(await item(ids.dispatch)).toMatchObject({ status: 'COMPLETED' })
  expect(calls).toEqual(['tell'])
})

test('U-06 cancel ends the work, and undoes what was done unless told otherwise', async () => {
  const { type, calls, oneOfEach } = failing()
  const ids = await oneOfEach()
  expect(sorted(await hf.trouble.cancel({ type }, by))).toEqual([
    done('commands', ids),
    done('dispatch', ids),
    done('processes', ids, 'pay'),
    done('workflows', ids, 'pay'),
  ])
  expect(await command(ids.commands)).toMatchObject({ status: 'CANCELLED' })
  await bus.rests(ids.processes, 'CANCELLED')
  await see.until(ids.workflows, 'CANCELLED')
  expect(await item(ids.dispatch)).toMatchObject({ status: 'FAILED' })
  expect(calls.filter((call) => call === 'undo')).toHaveLength(2)

  const plain = failing()
  const others = await plain.oneOfEach()
  await hf.trouble.cancel({ type: plain.type }, by, { compensate: false })
  await bus.rests(others.processes, 'CANCELLED')
  await see.until(others.workflows, 'ABORTED')
  expect(plain.calls).not.toContain('undo')
})

test('U-06 skip goes on without the failed step in processes and workflows, and is refused for commands and items', async () => {
  const { type, calls, oneOfEach } = failing()
  const ids = await oneOfEach()
  calls.length = 0
  const refused = (model: Model, problem: string) => ({
    ...about(model, ids),
    outcome: 'refused',
    code: 'HF_CANNOT_SKIP',
    message: expect.stringContaining(problem),
  })
  expect(sorted(await hf.trouble.skip({ type }, by))).toEqual([
    refused('commands', 'a command has no steps'),
    refused('dispatch', 'an item has no steps'),
    done('processes', ids, 'pay'),
    done('workflows', ids, 'pay'),
  ])
  expect(await bus.rests(ids.processes, 'COMPLETED')).toMatchObject({ result: 'undefined, and told' })
  // The input of the step is what the next one is given.
  expect((await see.until(ids.workflows, 'COMPLETED')).output).toEqual([[1, 'reserve'], 'tell'])
  expect(calls).toEqual(['tell'])
  expect((await hf.auditTrail({ id: ids.processes })).at(-1)).toMatchObject({
    event: 'TSQ_RESOLVE',
    actor: 'ann',
    after: { outcome: 'skipped' },
  })
})

test('U-06 what failed outside of a step cannot be skipped, and says so', async () => {
  const { type, broken, Payment } = failing()
  broken.clear()
  const { id } = await hf.start(Payment, { n: 1 }, { deadline: '1ms', immediate: false })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  const [record] = (await hf.trouble.list({ type })).items
  expect(record).toMatchObject({ code: 'DEADLINE_EXCEEDED', can: ['retry', 'complete', 'cancel'] })
  expect(await hf.trouble.skip([id], by)).toMatchObject([{ id, outcome: 'refused', code: 'HF_CANNOT_SKIP' }])
})

test('U-06 a compensation of a workflow that failed can be retried or skipped', async () => {
  const { type, broken, startWorkflow, troubles } = failing()
  broken.add('undo')
  const ids = [await startWorkflow(), await startWorkflow()]
  await troubles(2)
  await hf.trouble.cancel({ type }, by)
  await waitFor('the undoing failed', async () => {
    const { items } = await hf.trouble.list({ type })
    return items.length === 2 && items.every(({ compensating }) => compensating)
  })
  for (const id of ids) await see.until(id, 'FAILED')
  const { items } = await hf.trouble.list({ type })
  expect(items).toMatchObject([{ can: ['retry', 'complete', 'skip'] }, { can: ['retry', 'complete', 'skip'] }])
  expect(await hf.trouble.skip([ids[0] ?? ''], by)).toMatchObject([{ id: ids[0], outcome: 'done' }])
  broken.clear()
  expect(await hf.trouble.retry([ids[1] ?? ''], by)).toMatchObject([{ id: ids[1], outcome: 'done' }])
  await waitFor('both are undone', async () => (await hf.trouble.count({ type })) === 0)
})

test('U-06 ids, records and groups choose the same work; an id of work that needs no operator is refused', async () => {
  const { type, broken, oneOfEach, send, startProcess, troubles } = failing()
  const ids = await oneOfEach()
  const { items } = await hf.trouble.list({ type })
  const nobody = '0190163d-8694-739b-aea5-966c26f8ad91'
  broken.clear()
  expect(await hf.trouble.retry([ids.commands, nobody, 'PAY-0', ids.commands.toUpperCase()], by)).toEqual([
    { id: nobody, outcome: 'refused', code: 'HF_UNKNOWN_TROUBLE', message: expect.any(String) },
    { id: 'PAY-0', outcome: 'refused', code: 'HF_UNKNOWN_TROUBLE', message: expect.any(String) },
    done('commands', ids),
  ])
  const results = await hf.trouble.retry(items, by)
  expect(sorted(results)).toMatchObject([
    { model: 'commands', outcome: 'refused', code: 'HF_NOT_IN_TROUBLE' },
    { model: 'dispatch', outcome: 'done' },
    { model: 'processes', outcome: 'done' },
    { model: 'workflows', outcome: 'done' },
  ])
  await bus.rests(ids.processes, 'COMPLETED')
  await see.until(ids.workflows, 'COMPLETED')
  await waitFor('the command is done', async () => (await command(ids.commands))?.status === 'COMPLETED')
  broken.add('pay')
  await send()
  const id = await startProcess()
  await troubles(2)
  const group = (await hf.trouble.groups({ type, model: 'processes' }))[0] as TroubleGroup
  expect(await hf.trouble.cancel(group, by)).toMatchObject([{ model: 'processes', id, outcome: 'done' }])
  expect(await hf.trouble.count({ type })).toBe(1)
})

test('U-06 records of work that has continued since change nothing in any model', async () => {
  const { type, broken, oneOfEach } = failing()
  const ids = await oneOfEach()
  const { items } = await hf.trouble.list({ type })
  broken.clear()
  await hf.trouble.retry({ type }, by)
  await bus.rests(ids.processes, 'COMPLETED')
  for (const act of [hf.trouble.retry, hf.trouble.cancel]) {
    expect((await act(items, by)).map(({ code }) => code)).toEqual(Array(4).fill('HF_NOT_IN_TROUBLE'))
  }
  const withoutResult = items.filter(({ model }) => model !== 'commands')
  const completed = await hf.trouble.complete(withoutResult, by)
  expect(completed.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
  expect(await bus.process(ids.processes)).toMatchObject({ status: 'COMPLETED' })
})

test('U-06 a dead letter that another operator has retried since is not changed, also while its start has no known outcome', async () => {
  const { type, schedule, troubles } = failing()
  const key = await schedule(`${type}-1`)
  await troubles(1)
  const { items } = await hf.trouble.list({ type })
  await bus.sql('delete from holdfast.dispatch_dead_letter where item_id = $1', [key])
  await bus.sql(
    `update holdfast.dispatch_item set status = 'CLAIMED', last_error = 'TIMEOUT: no answer' where item_id = $1`,
    [key],
  )
  for (const act of [hf.trouble.complete, hf.trouble.cancel]) {
    expect(await act(items, by)).toMatchObject([{ outcome: 'refused', code: 'HF_NOT_IN_TROUBLE' }])
  }
  expect(await hf.trouble.retry(items, by, { notDone: true })).toMatchObject([{ code: 'HF_NOT_IN_TROUBLE' }])
  expect(await item(key)).toEqual({ status: 'CLAIMED' })
})

test('U-06 a group without a step is not the group of a step with the same failure', async () => {
  const { type, startProcess, troubles } = failing()
  const [outside, inside] = [await startProcess(), await startProcess()]
  await troubles(2)
  await bus.sql('update holdfast.process_trouble set step = null where id = $1', [outside])
  const groups = await hf.trouble.groups({ type })
  expect(groups.map(({ count }) => count)).toEqual([1, 1])
  const group = groups.find(({ step }) => step === null) as TroubleGroup
  expect((await hf.trouble.list({ type, step: null })).items.map(({ id }) => id)).toEqual([outside])
  expect(await hf.trouble.cancel(group, by)).toMatchObject([{ id: outside, outcome: 'done' }])
  expect((await hf.trouble.list({ type })).items.map(({ id }) => id)).toEqual([inside])
})

test('U-06 an id that two pieces of work have is refused, and names them', async () => {
  const [one, two] = [failing(), failing()]
  await one.schedule('PAY-TWICE')
  await two.schedule('PAY-TWICE')
  const [result] = await hf.trouble.retry(['PAY-TWICE'], by)
  expect(result).toMatchObject({ outcome: 'refused', code: 'HF_AMBIGUOUS_TROUBLE' })
  expect(result?.message).toContain(`/${one.type}`)
  expect(await hf.trouble.count({ model: 'dispatch', type: one.type })).toBe(1)
  const { items } = await hf.trouble.list({ type: one.type })
  expect(await hf.trouble.retry(items, by)).toMatchObject([{ id: 'PAY-TWICE', outcome: 'done' }])
  expect(await hf.trouble.count({ type: two.type })).toBe(1)
})

test('U-06 a filter with a limit selects the newest ones', async () => {
  const { type, startProcess, troubles } = failing()
  await startProcess()
  await troubles(1)
  const newest = await startProcess()
  await troubles(2)
  expect(await hf.trouble.cancel({ type, limit: 1 }, by)).toMatchObject([{ id: newest, outcome: 'done' }])
  expect(await hf.trouble.count({ type })).toBe(1)
})

test('U-06 work that fails again during an operation is not selected a second time', async () => {
  const { type, calls, startProcess, troubles } = failing()
  await startProcess()
  await troubles(1)
  calls.length = 0
  expect(await hf.trouble.retry({ type }, by)).toHaveLength(1)
  await troubles(1)
  expect(calls).toEqual(['pay'])
})

test('U-06 a locked row is refused as busy, and the others are done', async () => {
  const { type, broken, startProcess, send, startWorkflow, troubles } = failing()
  const locked = [await startProcess(), await send(), await startWorkflow()]
  const free = [await startProcess(), await send(), await startWorkflow()]
  await troubles(6)
  broken.clear()
  const other = new pg.Client({ connectionString: bus.connectionString })
  await other.connect()
  try {
    await other.query('begin')
    await other.query('select from holdfast.process where id = $1 for update', [locked[0]])
    await other.query('select from holdfast.command_trouble where command_id = $1 for update', [locked[1]])
    await other.query('select from holdfast.workflow where id = $1 for update', [locked[2]])
    const results = new Map((await hf.trouble.retry({ type }, by)).map((result) => [result.id, result]))
    for (const id of locked) expect(results.get(id)).toMatchObject({ outcome: 'refused', code: 'HF_BUSY' })
    for (const id of free) expect(results.get(id)).toMatchObject({ outcome: 'done' })
  } finally {
    await other.end()
  }
  expect(await hf.trouble.retry({ type }, by)).toHaveLength(3)
})

test('U-06 a person is assigned, shown, found by, audited, and forgotten when the work goes on', async () => {
  const { type, oneOfEach, troubles } = failing()
  const ids = await oneOfEach()
  const results = await hf.trouble.assign({ type }, by, { to: 'bob' })
  expect(results.map(({ outcome }) => outcome)).toEqual(Array(4).fill('done'))
  const mine = await hf.trouble.list({ assignedTo: 'bob', type })
  expect(mine.items.map(({ assignedTo }) => assignedTo)).toEqual(Array(4).fill('bob'))
  expect((await hf.auditTrail({ id: ids.workflows })).at(-1)).toMatchObject({
    event: 'ASSIGNED',
    actor: 'ann',
    before: { assignedTo: null },
    after: { assignedTo: 'bob' },
    detail: { step: 'pay' },
  })
  expect((await hf.auditTrail({ name: `default/${type}/${ids.dispatch}` })).at(-1)).toMatchObject({
    event: 'ASSIGNED',
  })
  await hf.trouble.assign([ids.commands], by, { to: null })
  expect(await hf.trouble.count({ assignedTo: 'bob' })).toBe(3)
  // It fails again: that is another trouble.
  await hf.trouble.retry([ids.processes], by)
  await troubles(4)
  expect((await hf.trouble.list({ type, model: 'processes' })).items).toMatchObject([{ assignedTo: null }])
  const gone = (await hf.trouble.list({ type, model: 'workflows' })).items
  await hf.trouble.cancel(gone, by)
  expect(await hf.trouble.assign(gone, by, { to: 'bob' })).toMatchObject([
    { outcome: 'refused', code: 'HF_NOT_IN_TROUBLE' },
  ])
  await hf.trouble.assign([ids.commands], by, { to: 'cyd' })
  expect(await bus.sql(`select model, assigned_to from holdfast.trouble_assignment order by 1`)).toEqual([
    { model: 'commands', assigned_to: 'cyd' },
    { model: 'dispatch', assigned_to: 'bob' },
  ])
})
