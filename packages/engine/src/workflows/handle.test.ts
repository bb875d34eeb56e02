import { numbered, observeWorkflows, openTestBus, type TestBus } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
/** Another program, which knows no definition and runs nothing. */
let operator: TestBus
let see: ReturnType<typeof observeWorkflows>
const broken = new Set<string>()
beforeAll(async () => {
  bus = await openTestBus()
  operator = await openTestBus({ connectionString: bus.connectionString })
  see = observeWorkflows(operator)
  bus.hf.handle('Work', (input, { stepName, instanceId }) => {
    if (broken.has(`${instanceId} ${stepName}`)) throw new BusinessError('no', { code: 'NO' })
    return input
  })
  bus.hf.handle('Fail', () => {
    throw new BusinessError('no', { code: 'NO' })
  })
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => Promise.all([bus.close(), operator.close()]))

const named = numbered('handle')
const by = { actor: 'ann', reason: 'because' }
const simple = (name: string) => defineWorkflow('test', name).step('a', 'Work').build()

describe('U-02 starting a workflow', () => {
  test('returns a handle that says whether this call began it', async () => {
    const Flow = simple(named())
    const first = await bus.hf.start(Flow, { n: 1 }, { key: 'K-1' })
    const second = await operator.hf.start(Flow, { n: 2 }, { key: 'K-1' })
    expect([first.created, second.created]).toEqual([true, false])
    expect(second.id).toBe(first.id)
    expect(await first.result()).toEqual({ n: 1 })
    expect(await second.result()).toEqual({ n: 1 })
  })

  test('many at once, also more than one statement holds: each with its own key, existing ones are reported', async () => {
    const Flow = simple(named())
    await bus.hf.start(Flow, 0, { key: 'K-7' })
    const many = Array.from({ length: 501 }, (_, place) => ({ input: place, key: `K-${place}` }))
    const started = await bus.hf.startMany(Flow, many)
    expect(started).toHaveLength(501)
    expect(started.flatMap(({ created }, place) => (created ? [] : [place]))).toEqual([7])
    const [, second] = started
    expect(await operator.hf.workflow(Flow, 'K-1').get()).toMatchObject({ id: second?.id, input: 1 })
    expect(await operator.hf.workflow(Flow, 'K-500').result()).toBe(500)
  })

  test('many at once in a transaction that is rolled back leave nothing, and none is started where one is refused', async () => {
    const Flow = simple(named())
    const one = { input: 1, key: 'K' }
    await expect(bus.hf.startMany(Flow, [one, { input: () => 1 }])).rejects.toMatchObject({ code: 'HF_NOT_ENCODABLE' })
    await expect(bus.hf.startMany(Flow, [one, { input: 1, kee: 1 } as never])).rejects.toMatchObject({
      code: 'HF_UNKNOWN_OPTION',
    })
    await expect(bus.hf.startMany(Flow, 'many' as never)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
    await expect(bus.hf.startMany(`${Flow.name}-v9`, [one])).rejects.toMatchObject({ code: 'HF_UNKNOWN_DEFINITION' })
    const client = new pg.Client({ connectionString: bus.connectionString })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('begin')
    const [begun] = await bus.hf.startMany(Flow, [one], { transaction: client })
    expect(begun).toMatchObject({ created: true })
    await client.query('rollback')
    await expect(bus.hf.workflow(Flow, 'K').get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    const twice = [{ input: 1, key: 'same' }, { input: 2 }, { input: 3, key: 'same' }]
    await expect(bus.hf.startMany(Flow, twice)).rejects.toThrow('instances[2].key` is that of instances[0]')
    await expect(bus.hf.startMany(Flow, [])).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  })
})

describe('U-04 the handle of an instance', () => {
  test('costs no query, and works by id and by key, with a definition, its name, or an id alone', async () => {
    const Flow = simple(named())
    const { id } = await bus.hf.start(Flow, 'in', { key: 'K-1' })
    const handles = [
      operator.hf.workflow(Flow, id),
      operator.hf.workflow(Flow, id.toUpperCase()),
      operator.hf.workflow(Flow, 'K-1'),
      operator.hf.workflow(Flow.name, 'K-1'),
      operator.hf.workflow(`${Flow.name}-v1`, 'K-1'),
      operator.hf.workflow(id),
    ]
    expect(handles.map((handle) => handle.id)).toEqual([id, id, 'K-1', 'K-1', 'K-1', id])
    for (const handle of handles) {
      expect(await handle.result()).toBe('in')
      expect(await handle.get()).toMatchObject({ id, key: 'K-1', status: 'COMPLETED' })
      expect(await handle.steps()).toMatchObject([{ name: 'a', status: 'COMPLETED' }])
      expect((await handle.history()).map(({ type }) => type)).toContain('workflow_completed')
      expect(await handle.render()).toContain('a')
      expect(await handle.render('mermaid')).toContain('flowchart')
      expect(await handle.why()).toMatchObject({ reason: 'ended' })
    }
  })

  test('of an unknown id or key rejects every method with HF_NOT_FOUND, and of another workflow with its own code', async () => {
    const Flow = simple(named())
    const { id } = await bus.hf.start(simple(named()))
    const unknown = newId()
    for (const [handle, code] of [
      [operator.hf.workflow(unknown), 'HF_NOT_FOUND'],
      [operator.hf.workflow(Flow, unknown), 'HF_NOT_FOUND'],
      [operator.hf.workflow(Flow, 'nobody'), 'HF_NOT_FOUND'],
      [operator.hf.workflow(Flow, id), 'HF_OTHER_TYPE'],
    ] as const) {
      const calls = [
        () => handle.get(),
        () => handle.result(),
        () => handle.history(),
        () => handle.steps(),
        () => handle.why(),
        () => handle.render(),
        () => handle.decide('ok' as never, 'confirm', by),
        () => handle.retry(by),
        () => handle.cancel(by),
        () => handle.complete(by),
      ]
      for (const call of calls) await expect(call()).rejects.toMatchObject({ code })
    }
    await expect(operator.hf.workflows.decisions.of(unknown)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    expect(
      (await operator.hf
        .workflow(unknown)
        .get()
        .catch((error: unknown) => error)) as object,
    ).toMatchObject({
      details: { model: 'workflows', id: unknown },
    })
  })

  test('refuses what is no id, key, workflow or option', async () => {
    const Flow = simple(named())
    const refused = (code: string, act: () => unknown) => expect(act).toThrow(expect.objectContaining({ code }))
    refused('HF_INVALID_ID', () => bus.hf.workflow('K-1'))
    refused('HF_INVALID_KEY', () => bus.hf.workflow(Flow, ''))
    refused('HF_INVALID_OPTION', () => bus.hf.workflow(Flow, 5 as never))
    refused('HF_INVALID_OPTION', () => bus.hf.workflow(5 as never, 'K-1'))
    const handle = await bus.hf.start(Flow)
    const colour = { colour: 'red' } as never
    const calls = [
      () => handle.result(colour),
      () => handle.retry(by, colour),
      () => handle.cancel(by, colour),
      () => handle.complete(by, 1, colour),
    ]
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
    await expect(handle.render('svg' as never)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
    await expect(handle.cancel(by, { compensate: 'no' as never })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  })

  test('retries all that failed for good, or the one that is named; an input or an outcome applies to one', async () => {
    const name = named()
    const Flow = defineWorkflow('test', name, { dlq: true })
      .fork(
        'f',
        (b) => b.step('a', 'Work'),
        (b) => b.step('b', 'Work'),
      )
      .join('j', 'all')
      .build()
    const id = newId()
    broken.add(`${id} a`).add(`${id} b`)
    const flow = await operator.hf.start(Flow, 1, { id })
    await see.until(id, 'DLQ')
    // One of them may have been frozen by the other.
    await flow.retry(by)
    await see.until(id, 'DLQ')
    const { items: letters } = await operator.hf.trouble.list({ id })
    if (letters.length === 2) {
      await expect(flow.retry(by, { input: 2 })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
      await expect(flow.retry(by, { notDone: true })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
      await expect(flow.complete(by, 2)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
    }
    const [failed, other] = letters.some(({ step }) => step === 'a') ? ['a', 'b'] : ['b', 'a']
    broken.clear()
    await flow.complete(by, 'by hand', { step: failed })
    if (letters.length === 2) await flow.retry(by, { step: other, input: 2 })
    expect(await flow.result()).toMatchObject({ [failed]: 'by hand' })
    await expect(flow.retry(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    await expect(flow.complete(by, 1, { step: failed })).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  })

  test('makes what waits for its next attempt due at once, the step that is named or all of them', async () => {
    const name = named()
    let calls = 0
    bus.hf.handle(name, () => {
      calls += 1
      if (calls < 3) throw new Error('not yet')
      return calls
    })
    const Flow = defineWorkflow('test', name)
      .step('a', name, { retry: ['1h', '1h'] })
      .build()
    const flow = await operator.hf.start(Flow, 1, { key: 'K' })
    await see.untilStep(flow.id, 'a', 'PENDING')
    await expect.poll(() => calls, { timeout: 60_000 }).toBe(1)
    await see.untilStep(flow.id, 'a', 'PENDING')
    await expect(flow.retry(by, { step: 'b' })).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    await expect(flow.retry(by, { input: 2 })).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    await operator.hf.workflow(Flow, 'K').retry(by, { step: 'a' })
    await expect.poll(() => calls, { timeout: 60_000 }).toBe(2)
    await see.untilStep(flow.id, 'a', 'PENDING')
    await flow.retry(by)
    expect(await flow.result()).toBe(3)
  })

  test('undoes what was done when it is cancelled, unless it is told not to', async () => {
    const name = named()
    bus.hf.handle(`${name} undo`, () => undefined)
    const Flow = defineWorkflow('test', name)
      .step('a', 'Work')
      .onFailure('ua', `${name} undo`)
      .waitHumanConfirm('ok')
      .build()
    for (const [compensate, status, step] of [
      [true, 'CANCELLED', 'ROLLED_BACK'],
      [false, 'ABORTED', 'COMPLETED'],
    ] as const) {
      const flow = await operator.hf.start(Flow)
      await see.untilStep(flow.id, 'ok', 'WAITING_DECISION')
      await flow.cancel(by, { compensate })
      await see.until(flow.id, status)
      expect(await see.statuses(flow.id)).toEqual({ a: step, ok: 'SKIPPED' })
      await flow.cancel(by, { compensate })
    }
  })
})
