import { gate, numbered, observeWorkflows, openTestBus, type TestBus } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import { defineWorkflow } from './define.js'
import type { WorkflowDefinition } from './definition/definition.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
  bus.hf.handle('Work', (input) => input)
  bus.hf.handle('Fail', () => {
    throw new BusinessError('no', { code: 'DECLINED' })
  })
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => bus.close())

const named = numbered('instance')
const by = { actor: 'ann', reason: 'because' }
const simple = (name: string) => defineWorkflow('test', name).step('a', 'Work').build()
const asleep = (name: string) => defineWorkflow('test', name).step('a', 'Nobody').build()

test('W-14 starting with the same id or key starts one instance, from any number of callers and however often', async () => {
  const name = named()
  const other = await openTestBus({ connectionString: bus.connectionString })
  const id = newId()
  const starts = await Promise.all([
    bus.hf.start(asleep(name), 1, { id }),
    bus.hf.start(asleep(name), 2, { id }),
    other.hf.start(asleep(name), 3, { id }),
  ])
  expect(starts.map((start) => start.id)).toEqual([id, id, id])
  expect(starts.filter(({ created }) => created)).toHaveLength(1)
  const keyed = await Promise.all([
    bus.hf.start(asleep(name), 1, { key: 'k' }),
    bus.hf.start(asleep(name), 2, { key: 'k' }),
    other.hf.start(asleep(name), 3, { key: 'k' }),
  ])
  expect(new Set(keyed.map((start) => start.id)).size).toBe(1)
  expect(keyed.filter(({ created }) => created)).toHaveLength(1)
  expect((await bus.hf.workflows.list({ type: name })).items).toHaveLength(2)
  expect((await bus.hf.workflows.list({ type: name, key: 'k' })).items).toMatchObject([{ id: keyed[0]?.id, key: 'k' }])
  // The key is the workflow's own.
  expect(await bus.hf.start(asleep(named()), 1, { key: 'k' })).toMatchObject({ created: true })
  await other.close()
})

test('W-14 an id that belongs to an instance of another workflow is refused', async () => {
  const { id } = await bus.hf.start(asleep(named()))
  await expect(bus.hf.start(asleep(named()), null, { id })).rejects.toMatchObject({
    code: 'HF_OTHER_TYPE',
  })
})

test('W-14 a start at a later moment calls nothing before it, by the clock of the database', async () => {
  const [row] = await bus.sql<{ at: Date }>(`select holdfast.now() + interval '1 hour' as at`)
  const startAt = row?.at ?? new Date(0)
  const { id } = await bus.hf.start(simple(named()), null, { startAt })
  const past = await bus.hf.start(simple(named()), null, { startAt: '2001-01-01T00:00:00Z' })
  await see.until(past.id, 'COMPLETED')
  expect(await bus.hf.workflow(id).get()).toMatchObject({ status: 'PENDING', startAt })
  expect(await bus.hf.workflow(id).steps()).toEqual([])
  await bus.moveClock(3_600_000)
  await see.until(id, 'COMPLETED')
  expect(await bus.hf.workflow(id).get()).toMatchObject({ startAt: null })
})

test('U-02 W-14 a start with a delay calls nothing before it is over, by the clock of the database', async () => {
  const flow = simple(named())
  const { id } = await bus.hf.start(flow, null, { delay: '1h' })
  const [many] = await bus.hf.startMany(flow, [{ input: null, delay: '2h' }])
  const [row] = await bus.sql<{ inOneHour: Date }>(`select holdfast.now() + interval '1 hour' as "inOneHour"`)
  const { status, startAt } = await bus.hf.workflow(id).get()
  expect(status).toBe('PENDING')
  expect(Math.abs(Number(startAt) - Number(row?.inOneHour))).toBeLessThan(60_000)
  await bus.moveClock(3_600_000)
  await see.until(id, 'COMPLETED')
  expect(await bus.hf.workflow(many?.id ?? '').get()).toMatchObject({ status: 'PENDING' })
  const both = { delay: '1h', startAt: new Date() } as const
  await expect(bus.hf.start(flow, null, both)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(bus.hf.start(flow, null, { attributes: {} } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
  })
})

test('K-15 W-14 a start in a transaction of the caller begins when it commits, and does not exist when it is rolled back', async () => {
  const name = named()
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await client.query('begin')
  const kept = await bus.hf.start(simple(name), 'kept', { transaction: client })
  expect(kept.created).toBe(true)
  await expect(bus.hf.workflow(kept.id).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await client.query('commit')
  expect((await see.until(kept.id, 'COMPLETED')).output).toBe('kept')
  await client.query('begin')
  const gone = await bus.hf.start(simple(name), 'gone', { transaction: client })
  await client.query('rollback')
  await expect(bus.hf.workflow(gone.id).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  expect((await bus.hf.workflows.list({ type: name })).items).toHaveLength(1)
  // The same id may be used again, and what is remembered of it is not what was rolled back.
  await bus.hf.start(simple(name), 'again', { id: gone.id })
  expect((await see.until(gone.id, 'COMPLETED')).output).toBe('again')
  await client.end()
})

test('W-14 the result of an instance is its output, or says how it ended, or that it has not', async () => {
  const name = named()
  expect(await (await bus.hf.start(simple(name), { at: new Date(0) })).result()).toEqual({ at: new Date(0) })
  const Failing = defineWorkflow('test', `${name} fails`).step('a', 'Fail').build()
  await expect(bus.hf.start(Failing).then((it) => it.result())).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    message: expect.stringMatching(/FAILED.*DECLINED/),
  })
  await expect(
    bus.hf.start(asleep(`${name} sleeps`), 1, { key: 'k' }).then((it) => it.result({ timeout: '50ms' })),
  ).rejects.toMatchObject({ code: 'HF_RESULT_TIMEOUT' })
  const [sleeping] = (await bus.hf.workflows.list({ type: `${name} sleeps` })).items
  const id = sleeping?.id ?? ''
  await expect(bus.hf.workflow(id).result({ timeout: '20ms' })).rejects.toMatchObject({ code: 'HF_RESULT_TIMEOUT' })
  const told = expect(bus.hf.workflow(id).result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    message: expect.stringMatching(/ABORTED/),
  })
  await bus.hf.workflow(id).cancel(by, { compensate: false })
  await told
  await expect(bus.hf.workflow(newId()).result()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('W-13 W-14 an instance shows its status and its steps; lists are filtered by status and workflow', async () => {
  const name = named()
  const Flow = defineWorkflow('test', name, { version: 3 })
    .step('a', 'Work', { priority: 70 })
    .waitHumanConfirm('ok')
    .build()
  const { id } = await bus.hf.start(Flow, { n: 1n }, { key: 'O-1' })
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  expect(await bus.hf.workflow(id).get()).toEqual({
    id,
    key: 'O-1',
    domain: 'test',
    type: name,
    version: 3,
    status: 'RUNNING',
    input: { n: 1n },
    output: null,
    error: null,
    paused: false,
    startAt: null,
    createdAt: expect.any(Date),
    updatedAt: expect.any(Date),
    endedAt: null,
  })
  expect(await bus.hf.workflow(id).steps()).toEqual([
    {
      name: 'a',
      status: 'COMPLETED',
      input: { n: 1n },
      output: { n: 1n },
      error: null,
      attempts: 1,
      compensationAttempts: 0,
      reachedAt: expect.any(Date),
      startedAt: expect.any(Date),
      endedAt: expect.any(Date),
      queued: null,
      deadLetter: null,
    },
    expect.objectContaining({ name: 'ok', status: 'WAITING_DECISION', input: { n: 1n }, endedAt: null }),
  ])
  const listed = (filter: object) => bus.hf.workflows.list({ type: name, ...filter }).then(({ items }) => items)
  expect(await listed({ status: 'RUNNING' })).toMatchObject([{ id }])
  expect(await listed({ status: 'COMPLETED' })).toEqual([])
  expect(await listed({ version: 3, since: new Date(0), limit: 5 })).toMatchObject([{ id }])
  expect(await listed({ until: new Date(0) })).toEqual([])
  for (const wrong of [{ status: 'DONE' }, { limit: 0 }, { since: 'nonsense' }, { colour: 'red' }]) {
    await expect(listed(wrong)).rejects.toMatchObject({ code: expect.stringMatching(/^HF_(INVALID|UNKNOWN)_OPTION$/) })
  }
  expect(() => bus.hf.workflow('nonsense')).toThrow(expect.objectContaining({ code: 'HF_INVALID_ID' }))
  await expect(bus.hf.workflow(newId()).steps()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('W-14 an instance is rendered with how far it has come', async () => {
  const Flow = defineWorkflow('test', named()).step('a', 'Work').waitHumanConfirm('ok').step('b', 'Work').build()
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  const text = await bus.hf.workflow(id).render()
  expect(text).toMatch(/a.*COMPLETED[\s\S]*ok.*WAITING_DECISION/)
  expect(await bus.hf.workflow(id).render('mermaid')).toMatch(/^flowchart[\s\S]*WAITING_DECISION/)
  // @ts-expect-error no such format
  await expect(bus.hf.workflow(id).render('pdf')).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(bus.hf.workflow(newId()).render()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('W-17 events show everything that happened in order, with attempts, errors, actor and reason', async () => {
  const name = named()
  bus.hf.handle(name, (_, { stepName, attempt, compensation }) => {
    if (attempt === 1 && (stepName === 'a' || compensation === 'ua')) throw new Error('not yet')
    if (stepName === 'd') throw new BusinessError('no', { code: 'DECLINED' })
  })
  const soon = { retry: ['1ms'] } as const
  const Flow = defineWorkflow('test', name)
    .step('a', name, soon)
    .onFailure('ua', name, soon)
    .waitHumanConfirm('ok')
    .condition('check', '{{ eq 1 1 }}')
    .fork(
      'f',
      (b) => b.step('b', name),
      (b) => b.condition('end', '{{ eq 1 2 }}').step('c', name),
    )
    .join('j', 'all')
    .step('d', name)
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  await bus.hf.workflow(id).decide('ok', 'confirm', by)
  await see.until(id, 'FAILED')
  const events = await bus.hf.workflow(id).history()
  const lines = events.map(({ type, step, status, attempts, error, actor }) =>
    [type, step, status, attempts, error?.code ?? error?.message, actor]
      .filter((part) => part !== null && part !== undefined)
      .join(' '),
  )
  expect(lines).toEqual([
    'workflow_started RUNNING',
    'step_started a RUNNING 1',
    expect.stringMatching(/^step_retry a PENDING 1 /),
    'step_started a RUNNING 2',
    'step_completed a COMPLETED 2',
    'step_started ok WAITING_DECISION',
    'decision_made ok CONFIRMED ann',
    'condition_evaluated check COMPLETED',
    'fork_started f COMPLETED',
    'condition_evaluated end COMPLETED',
    'step_started b RUNNING 1',
    'step_completed b COMPLETED 1',
    'join_completed j COMPLETED',
    'step_started d RUNNING 1',
    'step_failed d FAILED 1 DECLINED',
    'compensation_success d ROLLED_BACK',
    'compensation_success j ROLLED_BACK',
    'compensation_success b ROLLED_BACK',
    'compensation_success end ROLLED_BACK',
    'compensation_success f ROLLED_BACK',
    'compensation_success check ROLLED_BACK',
    'compensation_success ok ROLLED_BACK',
    'compensation_started a COMPENSATING',
    expect.stringMatching(/^compensation_retry a COMPENSATING 1 /),
    'compensation_success a ROLLED_BACK 2',
    'workflow_failed FAILED DECLINED',
  ])
  const [evaluated] = events.filter(({ type }) => type === 'condition_evaluated')
  expect(evaluated?.detail).toEqual({ result: true })
})

test('W-14 clean-up removes what ended long ago, of every terminal status, and nothing that is still in use', async () => {
  const name = named()
  const flow = (kind: string, steps: (b: ReturnType<typeof defineWorkflow>) => { build(): WorkflowDefinition }) =>
    bus.hf.start(steps(defineWorkflow('test', `${name} ${kind}`)).build())
  const completed = await flow('completed', (b) => b.step('a', 'Work'))
  const failed = await flow('failed', (b) => b.step('a', 'Fail'))
  const stuck = await flow('stuck', (b) =>
    b
      .step('a', 'Work')
      .onFailure('ua', 'Fail', { retry: { maxAttempts: 1 } })
      .step('b', 'Fail'),
  )
  const cancelled = await flow('cancelled', (b) => b.waitHumanConfirm('ok'))
  const aborted = await flow('aborted', (b) => b.waitHumanConfirm('ok'))
  const running = await flow('running', (b) => b.waitHumanConfirm('ok'))
  await bus.hf.workflow(cancelled.id).cancel(by)
  await bus.hf.workflow(aborted.id).decide('ok', 'reject', by)
  await see.until(completed.id, 'COMPLETED')
  for (const { id } of [failed, stuck]) await see.until(id, 'FAILED')
  expect(await bus.hf.workflows.cleanUp({ olderThan: '1d' })).toBe(0)
  await bus.moveClock(25 * 3_600_000)
  const young = await flow('young', (b) => b.step('a', 'Work'))
  await see.until(young.id, 'COMPLETED')
  const cleanUp = (statuses: ('COMPLETED' | 'FAILED' | 'CANCELLED' | 'ABORTED')[]) =>
    bus.hf.workflows.cleanUp({ olderThan: '1d', statuses })
  expect(await cleanUp(['CANCELLED'])).toBe(1)
  await expect(bus.hf.workflow(cancelled.id).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  while ((await bus.hf.workflows.cleanUp({ olderThan: '1d', limit: 2 })) > 0);
  for (const { id } of [completed, failed, aborted]) {
    await expect(bus.hf.workflow(id).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    const left = await bus.sql(
      `select 1 from holdfast.workflow_step where workflow_id = $1
       union all select 1 from holdfast.workflow_decision where workflow_id = $1`,
      [id],
    )
    expect(left).toEqual([])
  }
  const statuses = await Promise.all([stuck, running, young].map(({ id }) => bus.hf.workflow(id).get()))
  expect(statuses.map(({ status }) => status)).toEqual(['FAILED', 'RUNNING', 'COMPLETED'])
  // @ts-expect-error not an end
  await expect(cleanUp(['RUNNING'])).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('W-14 clean-up keeps an ended instance while a handler of it still runs', async () => {
  const name = named()
  const running = gate()
  const end = gate()
  bus.hf.handle(name, async () => {
    running.open()
    await end.passed
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  await running.passed
  await bus.hf.workflow(id).cancel(by, { compensate: false })
  await bus.sql(`update holdfast.workflow set ended_at = ended_at - interval '2 days' where id = $1`, [id])
  await bus.hf.workflows.cleanUp({ olderThan: '1d' })
  expect((await bus.hf.workflow(id).get()).status).toBe('ABORTED')
  end.open()
  await see.untilStep(id, 'a', 'COMPLETED')
  await bus.hf.workflows.cleanUp({ olderThan: '1d' })
  await expect(bus.hf.workflow(id).get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('W-11 W-14 an instance that has not begun is cancelled, and never begins', async () => {
  const startAt = new Date('2999-01-01')
  const by = { actor: 'ann', reason: 'not needed' }
  const cancelled = await bus.hf.start(simple(named()), null, { startAt })
  const aborted = await bus.hf.start(simple(named()), null, { startAt })
  await bus.hf.workflow(cancelled.id).cancel(by)
  await bus.hf.workflow(aborted.id).cancel(by, { compensate: false })
  expect((await bus.hf.workflow(cancelled.id).get()).status).toBe('CANCELLED')
  expect((await bus.hf.workflow(aborted.id).get()).status).toBe('ABORTED')
  const left = await bus.sql('select from holdfast.workflow_step where workflow_id = any ($1)', [
    [cancelled.id, aborted.id],
  ])
  expect(left).toEqual([])
})
