import { numbered, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineWorkflow } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const named = numbered('domains')
const by = { actor: 'ann', reason: 'because' }

describe('U-01 the domain of a workflow', () => {
  test('is part of its name, and two teams may use the same type and the same key', async () => {
    const type = named()
    const [Ours, Theirs] = ['ours', 'theirs'].map((domain) => defineWorkflow(domain, type).step('a', 'Nobody').build())
    if (!Ours || !Theirs) throw new Error('there are two')
    expect(Ours).toMatchObject({ domain: 'ours', type, name: `ours/${type}`, version: 1 })
    const ours = await bus.hf.start(Ours, 1, { key: 'K' })
    const theirs = await bus.hf.start(Theirs, 2, { key: 'K' })
    expect(theirs.created).toBe(true)
    expect(await bus.hf.workflow(`ours/${type}`, 'K').get()).toMatchObject({ id: ours.id, domain: 'ours', type })
    expect(await bus.hf.workflow(Theirs, 'K').get()).toMatchObject({ id: theirs.id, domain: 'theirs', type })
    await expect(bus.hf.start(type)).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
  })

  test('pauses its workflows and no others', async () => {
    const type = named()
    const domain = `paused ${type}`
    bus.hf.handle(type, () => 'done')
    const Paused = defineWorkflow(domain, type).step('a', type).build()
    const Other = defineWorkflow(`not ${domain}`, type).step('a', type).build()
    bus.hf.register(Paused)
    await bus.hf.pause({ domain }, by)
    const worker = await bus.hf.run({ poll: '20ms' })
    const paused = await bus.hf.start(Paused)
    const other = await bus.hf.start(Other)
    expect(await other.result()).toBe('done')
    expect(await paused.get()).toMatchObject({ status: 'RUNNING', paused: true })
    expect(await paused.steps()).toMatchObject([{ name: 'a', queued: { paused: true } }])
    expect(await paused.why()).toMatchObject({ reason: 'paused' })
    await bus.hf.resume({ domain }, by)
    expect(await paused.result()).toBe('done')
    await worker.stop()
  })

  test('is known to pauses once a workflow of it is stored, whether or not a worker runs it', async () => {
    const domain = named()
    await expect(bus.hf.pause({ domain }, by)).rejects.toMatchObject({ code: 'HF_UNKNOWN_SUBJECT' })
    const { id } = await bus.hf.start(defineWorkflow(domain, 'any').step('a', 'Nobody').build())
    await bus.hf.pause({ domain }, by)
    expect(await bus.hf.workflow(id).why()).toMatchObject({ reason: 'paused' })
    await bus.hf.resume({ domain }, by)
  })

  test('chooses what a worker with domains runs: the handlers that workflows of these domains use', async () => {
    const own = await openTestBus({ connectionString: bus.connectionString })
    const name = named()
    const Ours = defineWorkflow(`ours ${name}`, 'any').step('a', `${name} ours`).build()
    const Theirs = defineWorkflow(`theirs ${name}`, 'any').step('a', `${name} theirs`).build()
    own.hf.handle(Ours, { [`${name} ours`]: () => 'ours' })
    own.hf.handle(Theirs, { [`${name} theirs`]: () => 'theirs' })
    const worker = await own.hf.run({ domains: [`ours ${name}`], poll: '20ms' })
    const theirs = await own.hf.start(Theirs)
    const ours = await own.hf.start(Ours)
    expect(await ours.result()).toBe('ours')
    expect(await theirs.why()).toMatchObject({ reason: 'noWorker' })
    await worker.stop()
    const all = await own.hf.run({ poll: '20ms' })
    expect(await theirs.result()).toBe('theirs')
    await all.stop()
    await own.close()
  })
})

describe('U-05 the set of workflows', () => {
  test('is listed newest first, page by page, also where many were started in one millisecond', async () => {
    const domain = named()
    const [First, Second] = ['first', 'second'].map((type) => defineWorkflow(domain, type).step('a', 'Nobody').build())
    if (!First || !Second) throw new Error('there are two')
    const many = (count: number) => Array.from({ length: count }, (_, place) => ({ input: place, key: `K-${place}` }))
    const started = [...(await bus.hf.startMany(First, many(5))), ...(await bus.hf.startMany(Second, many(4)))]
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await bus.hf.workflows.list({ domain, limit: 2, ...(cursor === undefined ? {} : { cursor }) })
      expect(page.items.length).toBeLessThanOrEqual(2)
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.cursor
    } while (cursor !== undefined)
    expect(seen).toHaveLength(9)
    expect(new Set(seen)).toEqual(new Set(started.map(({ id }) => id)))
    expect(seen.slice(0, 4).toSorted()).toEqual(
      started
        .slice(5)
        .map(({ id }) => id)
        .toSorted(),
    )
    expect(await bus.hf.workflows.count({ domain })).toBe(9)
    expect(await bus.hf.workflows.count({ domain, type: 'second' })).toBe(4)
    expect((await bus.hf.workflows.list({ domain, key: 'K-1' })).items.map(({ type }) => type)).toEqual([
      'second',
      'first',
    ])
    expect(await bus.hf.workflows.count({ domain, status: 'RUNNING', since: new Date(0) })).toBe(9)
    expect(await bus.hf.workflows.count({ domain, until: new Date(0) })).toBe(0)
    await expect(bus.hf.workflows.list({ cursor: 'x' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
    await expect(bus.hf.workflows.count({ cursor: 'x' } as never)).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
    await expect(bus.hf.workflows.list({ domain: 5 } as never)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  })

  test('says which workflows are known, and which handlers no live worker has', async () => {
    const domain = named()
    const build = (version: number) =>
      defineWorkflow(domain, 'known', { version }).step('a', `${domain} here`).step('b', `${domain} nowhere`).build()
    await bus.hf.start(build(1))
    await bus.hf.start(build(2))
    bus.hf.handle(`${domain} here`, () => 1)
    const worker = await bus.hf.run({ poll: '20ms' })
    const known = (await bus.hf.workflows.definitions()).filter((workflow) => workflow.domain === domain)
    expect(known).toMatchObject([
      { type: 'known', version: 1, liveWorkers: 1, missingHandlers: [`${domain} nowhere`], storedAt: expect.any(Date) },
      { type: 'known', version: 2, liveWorkers: 1, missingHandlers: [`${domain} nowhere`] },
    ])
    await worker.stop()
  })

  test('has settings that an operator changes, which is audited', async () => {
    expect(await bus.hf.workflows.settings()).toEqual({ aging: 0.5 })
    await bus.hf.workflows.configure({ aging: 2 }, by)
    expect(await bus.hf.workflows.settings()).toEqual({ aging: 2 })
    await expect(bus.hf.workflows.configure({ aging: -1 }, by)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
    await expect(bus.hf.workflows.configure({ ageing: 1 } as never, by)).rejects.toMatchObject({
      code: 'HF_UNKNOWN_OPTION',
    })
    await bus.hf.workflows.configure({ aging: 0.5 }, by)
  })
})
