import { numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineWorkflow } from './define.js'
import { canonicalWorkflow, workflowHash } from './definition/canonical.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('order')
const rows = (name: string) =>
  bus.sql<{ version: number }>('select version from holdfast.workflow_definition where name = $1 order by 1', [
    `test/${name}`,
  ])

test('W-03 a definition is stored once per version, however many programs start it and however often', async () => {
  const name = named()
  const Order = () => defineWorkflow('test', name).step('a', 'Any').build()
  const other = await openTestBus({ connectionString: bus.connectionString })
  await Promise.all([bus.hf.start(Order()), bus.hf.start(Order()), other.hf.start(Order())])
  await other.close()
  expect(await rows(name)).toEqual([{ version: 1 }])
})

test("W-03 two programs that store the same definition at the same moment: the second goes on with the first one's", async () => {
  const Order = defineWorkflow('test', named()).step('a', 'Any').build()
  const other = new pg.Client({ connectionString: bus.connectionString })
  await other.connect()
  await other.query('begin')
  await other.query(
    `insert into holdfast.workflow_definition (name, version, hash, body, created_at)
     values ($1, 1, $2, $3, holdfast.now())`,
    [Order.name, workflowHash(Order), canonicalWorkflow(Order)],
  )
  const starting = bus.hf.start(Order)
  await waitFor('it waits for the other', async () => {
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%workflow_definition%'`
    return (await bus.sql(waiting)).length > 0
  })
  await other.query('commit')
  expect(await starting).toMatchObject({ created: true })
  await other.end()
})

test('W-03 another graph under a stored version is refused by a start and by a worker, and nothing is changed', async () => {
  const name = named()
  await bus.hf.start(defineWorkflow('test', name).step('a', 'Any').build())
  const Edited = defineWorkflow('test', name).step('a', 'Any').step('b', 'Any').build()
  const refusal = { code: 'HF_WORKFLOW_CHANGED', message: expect.stringContaining(`${name} has another graph`) }
  await expect(bus.hf.start(Edited)).rejects.toMatchObject(refusal)
  const other = await openTestBus({ connectionString: bus.connectionString })
  other.hf.register(Edited)
  await expect(other.hf.run()).rejects.toMatchObject(refusal)
  await other.close()
  expect((await bus.hf.workflows.list({ type: name })).items).toHaveLength(1)
})

test('U-02 W-03 a name is the newest version, name-vN that one; running instances go on with the version they began with', async () => {
  const name = named()
  const calls: string[] = []
  for (const handler of [`${name} 1`, `${name} 2`, `${name} end`]) {
    bus.hf.handle(handler, () => void calls.push(handler))
  }
  const first = await bus.hf.start(
    defineWorkflow('test', name).waitHumanConfirm('ok').step('a', `${name} 1`).step('b', `${name} end`).build(),
  )
  bus.hf.register(defineWorkflow('test', name, { version: 2 }).step('a', `${name} 2`).build())
  const worker = await bus.hf.run({ poll: '20ms' })
  const newest = await bus.hf.start(`test/${name}`)
  await see.until(newest.id, 'COMPLETED')
  expect(calls).toEqual([`${name} 2`])
  await bus.hf.workflow(first.id).decide('ok', 'confirm', { actor: 'ann', reason: 'fine' })
  await see.until(first.id, 'COMPLETED')
  expect(calls).toEqual([`${name} 2`, `${name} 1`, `${name} end`])
  const older = await bus.hf.start(`test/${name}-v1`)
  const [newestRecord, olderRecord] = await Promise.all([
    bus.hf.workflow(newest.id).get(),
    bus.hf.workflow(older.id).get(),
  ])
  expect([newestRecord.version, olderRecord.version]).toEqual([2, 1])
  await worker.stop()
})

test('W-03 a name that is not stored is refused and the nearest one named', async () => {
  await bus.hf.start(defineWorkflow('test', 'onboarding', { version: 3 }).step('a', 'Any').build())
  await expect(bus.hf.start('test/onbording')).rejects.toMatchObject({
    code: 'HF_UNKNOWN_DEFINITION',
    message: expect.stringContaining('did you mean `test/onboarding`'),
  })
  await expect(bus.hf.start('test/onboarding-v4')).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
})

test('W-03 a service that has only handlers runs what another has defined and started', async () => {
  const name = named()
  const service = await openTestBus({ connectionString: bus.connectionString })
  const seen: unknown[] = []
  service.hf.handle(`${name} work`, (input, { workflow, version, metadata }) => {
    seen.push({ input, workflow, version, metadata })
    return { big: true }
  })
  await service.hf.run({ poll: '20ms' })
  const Order = defineWorkflow('test', name, { version: 7 })
    .step('a', `${name} work`, { metadata: { queue: 'blue' } })
    .condition('large', '{{ .big }}')
    .step('b', `${name} work`)
    .build()
  const { id } = await bus.hf.start(Order, { n: 1 })
  await see.until(id, 'COMPLETED')
  expect(seen).toEqual([
    { input: { n: 1 }, workflow: `test/${name}`, version: 7, metadata: { queue: 'blue' } },
    { input: { big: true }, workflow: `test/${name}`, version: 7, metadata: {} },
  ])
  await service.close()
})

test('W-02 a definition that was put together by hand is checked like a built one before it is stored', async () => {
  const name = named()
  const { steps, ...rest } = defineWorkflow('test', name).step('a', 'Any').build()
  const broken = { ...rest, steps: steps.map((step) => ({ ...step, next: 'nowhere' })) }
  await expect(bus.hf.start(broken)).rejects.toMatchObject({ code: 'HF_INVALID_WORKFLOW' })
  expect(await rows(name)).toEqual([])
  for (const nothing of [undefined, null, 5, {}]) {
    // @ts-expect-error no workflow at all
    await expect(bus.hf.start(nothing)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  }
})
