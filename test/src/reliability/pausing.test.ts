import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, defineWorkflow, type Logger } from 'holdfast'
import { assemble, openDatabase } from 'holdfast/internal'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'

let bus: TestBus
beforeEach(async () => {
  bus = await openTestBus()
})
afterEach(() => bus.close())

const by = { actor: 'ann', reason: 'maintenance' }

test('K-18 a domain that is paused whole is polled without an error, and goes on when it is resumed', async () => {
  const warnings: unknown[] = []
  const note = (...said: unknown[]) => void warnings.push(said)
  const logger: Logger = { debug: () => undefined, info: note, warn: note, error: note }
  const hf = assemble(await openDatabase({ connectionString: bus.connectionString }), { logger })
  const [Do, Probe] = [defineCommand('whole', 'Do'), defineCommand('probe', 'Do')]
  hf.handle(Do, () => 'done')
  hf.handle(Probe, () => 'probed')
  await hf.pause({ domain: 'whole' }, by)
  await hf.run({ poll: '10ms' })
  const { id } = await hf.send(Do, null)
  for (let polls = 0; polls < 5; polls += 1) await (await hf.send(Probe, null)).result()
  expect(warnings).toEqual([])
  expect(await hf.command(Do, id).get()).toMatchObject({ status: 'PENDING', attempts: 0, paused: true })
  expect((await hf.commands.list({ domain: 'whole' })).items.map(({ paused }) => paused)).toEqual([true])
  await hf.resume({ domain: 'whole' }, by)
  expect(await hf.command(Do, id).result()).toBe('done')
  expect(await hf.command(Do, id).get()).toMatchObject({ paused: false })
  await hf.close()
})

test.each([{ domain: 'starts' }, { definition: 'starts/Do' }])(
  'K-18 an immediate start while %j is paused is left to a worker, which runs it when it is resumed',
  async (subject) => {
    let executions = 0
    const Do = defineProcess('starts', 'Do', {
      state: z.any(),
      execute: async () => {
        executions += 1
      },
    })
    bus.hf.register(Do)
    await bus.hf.pause(subject, by)
    const started = await bus.hf.start(Do, {})
    expect(started.created).toBe(true)
    expect(await started.get()).toMatchObject({ status: 'PENDING' })
    await bus.hf.run({ poll: '20ms' })
    expect(await bus.hf.process(Do, started.id).get()).toMatchObject({
      status: 'PENDING',
      paused: true,
      leasedBy: null,
    })
    expect(executions).toBe(0)
    await bus.hf.resume(subject, by)
    await bus.rests(started.id, 'COMPLETED')
    expect(executions).toBe(1)
  },
)

test.each([{ domain: 'held' }, { definition: 'held/Do' }])(
  'K-18 while %j is paused a worker claims processes of other definitions and none of these',
  async (subject) => {
    const [Do, Probe] = (['held', 'held-probe'] as const).map((domain) =>
      defineProcess(domain, 'Do', { state: z.any(), execute: async () => 'done' }),
    ) as [ReturnType<typeof defineProcess>, ReturnType<typeof defineProcess>]
    bus.hf.register(Do)
    bus.hf.register(Probe)
    await bus.hf.pause(subject, by)
    const { id } = await bus.hf.start(Do, {}, { immediate: false })
    await bus.hf.run({ poll: '20ms' })
    // One claim looks at both definitions, so what is claimed of the second has passed the first by.
    for (let claims = 0; claims < 3; claims += 1) {
      const probe = await bus.hf.start(Probe, {}, { immediate: false })
      await bus.rests(probe.id, 'COMPLETED')
    }
    expect(await bus.process(id)).toMatchObject({ status: 'PENDING', lease_epoch: 0 })
    await bus.hf.resume(subject, by)
    await bus.rests(id, 'COMPLETED')
  },
)

test('K-18 a paused backlog of a workflow is set aside: claims of other work do not go through it again', async () => {
  const backlog = 5_000
  const Paused = defineWorkflow('test', 'backlog').step('a', 'shared').build()
  const Other = defineWorkflow('test', 'other').step('a', 'shared').build()
  bus.hf.register(Paused)
  const { id } = await bus.hf.start(Paused, null)
  await bus.sql(
    `insert into holdfast.workflow_step (workflow_id, number, definition_id, name, status, handler, due_at, ready,
       scheduled_at, priority, aging, rank, reached_at, input)
     select gen_random_uuid(), number, definition_id, name, status, handler, due_at, ready, scheduled_at, priority, aging,
       rank, reached_at, input
     from holdfast.workflow_step, generate_series(1, $2::int)
     where workflow_id = $1`,
    [id, backlog],
  )
  await bus.hf.pause({ definition: 'test/backlog' }, by)
  bus.hf.handle('shared', () => 'done')
  await bus.hf.run({ poll: '20ms' })
  expect(await (await bus.hf.start(Other, null)).result()).toBe('done')
  const ready = async () =>
    (await bus.sql(`select from holdfast.workflow_step where handler = 'shared' and ready limit 1`)).length
  await waitFor('the backlog is set aside', async () => (await ready()) === 0)
  expect(await bus.hf.workflow(id).get()).toMatchObject({ status: 'RUNNING', paused: true })
  // What is enqueued while it is paused follows.
  await bus.hf.start(Paused, null)
  await waitFor('that is set aside too', async () => (await ready()) === 0)
  await bus.sql(
    `delete from holdfast.workflow_step where not exists (select from holdfast.workflow where id = workflow_id)`,
  )
  await bus.hf.resume({ definition: 'test/backlog' }, by)
  expect(await bus.hf.workflow(id).result()).toBe('done')
  expect(await bus.sql('select from holdfast.workflow_set_aside')).toEqual([])
})

test('K-18 a type that was never registered cannot be paused; one that was only sent or started can', async () => {
  const Waits = defineCommand('sent', 'Waits')
  for (const subject of [{ domain: 'sent' }, { definition: 'sent/Waits' }, { handler: 'Waits' }]) {
    await expect(bus.hf.pause(subject, by)).rejects.toMatchObject({ code: 'HF_UNKNOWN_SUBJECT' })
  }
  await bus.hf.send(Waits, null)
  for (const subject of [{ domain: 'sent' }, { definition: 'sent/Waits' }, { handler: 'Waits' }]) {
    expect(await bus.hf.pause(subject, by)).toBe(true)
  }
})

test('K-18 K-22 waiting for the result of paused work fails with an error that says so', async () => {
  const hf = bus.hf
  const Do = defineCommand('awaited', 'Do')
  const Run = defineProcess('awaited', 'Run', { state: z.any(), execute: async () => undefined })
  const Flow = defineWorkflow('test', 'awaited').step('a', 'awaited').build()
  hf.handle(Do, () => undefined)
  hf.register(Run)
  hf.register(Flow)
  hf.handle('awaited', () => undefined)
  const workflow = await hf.start(Flow, {}, { startAt: new Date(Date.now() + 3_600_000) })
  await hf.pause({ domain: 'awaited' }, by)
  await hf.pause({ definition: 'test/awaited' }, by)
  const { id: command } = await hf.send(Do, null)
  const process = await hf.start(Run, {})
  const wait = { timeout: '20ms' } as const
  const awaited = [
    () => hf.command(Do, command).result(wait),
    () => hf.process(Run, process.id).result(wait),
    () => hf.workflow(workflow.id).result(wait),
  ]
  for (const result of awaited) {
    await expect(result()).rejects.toMatchObject({
      code: 'HF_RESULT_TIMEOUT',
      message: expect.stringMatching(/paused by (an operator|ann)/),
    })
  }
})
