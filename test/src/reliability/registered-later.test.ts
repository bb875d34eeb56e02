import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, defineWorkflow } from 'holdfast'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'

let bus: TestBus
beforeEach(async () => {
  bus = await openTestBus()
})
afterEach(() => bus.close())

const running = () => bus.hf.run({ poll: '20ms', lease: '5s' })

test('K-21 a handler of a command, in a new domain, is used by a running worker', async () => {
  await running()
  const Do = defineCommand('later', 'Do')
  bus.hf.handle(Do, () => 'done')
  expect(await (await bus.hf.send(Do, null)).result()).toBe('done')
})

test('K-21 a second handler of a domain is used too, and its presence is recorded at once', async () => {
  const [First, Second] = [defineCommand('grows', 'First'), defineCommand('grows', 'Second')]
  bus.hf.handle(First, () => 'first')
  await running()
  bus.hf.handle(Second, () => 'second')
  expect(await (await bus.hf.send(Second, null)).result()).toBe('second')
  await waitFor('it is noted', async () => {
    const rows = await bus.sql(`select name from holdfast.worker_definition where name like 'grows/%'`)
    return rows.length === 2
  })
})

test('K-21 processes that are registered later are run by a running worker', async () => {
  const Sub = defineCommand('later', 'Sub')
  const process = (type: string) =>
    defineProcess('later', type, {
      state: z.any(),
      responses: { go: { data: z.any() } },
      execute: async (ctx) => {
        await ctx.event('go', 'go')
        return ctx.command('sub', Sub, null)
      },
    })
  const [First, Second] = [process('First'), process('Second')]
  await running()
  bus.hf.register(First)
  bus.hf.handle(Sub, () => 'sub')
  for (const definition of [First, Second]) {
    if (definition === Second) bus.hf.register(Second)
    const { id } = await bus.hf.start(definition, {}, { immediate: false })
    await bus.rests(id, 'WAITING_FOR_ASYNC')
    // Through the inbox, as from another language.
    await bus.sql(`select holdfast.respond($1, $2, $3, 'go', '1'::jsonb)`, ['later', definition.type, id])
    expect(await bus.hf.process(definition, id).result()).toBe('sub')
  }
  await waitFor('they are noted', async () => {
    const rows = await bus.sql(
      `select name from holdfast.worker_definition where model = 'processes' and name like 'later/%'`,
    )
    return rows.length === 2
  })
})

test('K-21 a workflow and its handler that are registered later are run by a running worker', async () => {
  await running()
  const Flow = defineWorkflow('test', 'later').step('a', 'later-a').build()
  bus.hf.register(Flow)
  bus.hf.handle('later-a', () => 'done')
  expect(await (await bus.hf.start(Flow, null)).result()).toBe('done')
  await waitFor('its definition is stored', async () => {
    return (await bus.sql(`select from holdfast.workflow_definition where name = 'test/later'`)).length === 1
  })
})

test('K-21 a worker of named domains runs nothing else', async () => {
  const [Mine, Other] = [defineCommand('mine', 'Do'), defineCommand('other', 'Do')]
  bus.hf.handle(Mine, () => 'mine')
  const worker = await bus.hf.run({ domains: ['mine'], poll: '20ms' })
  bus.hf.handle(Other, () => 'other')
  const { id } = await bus.hf.send(Other, null)
  expect(await (await bus.hf.send(Mine, null)).result()).toBe('mine')
  expect(worker.domains).toEqual(['mine'])
  expect((await bus.hf.command(Other, id).get()).status).toBe('PENDING')
})
