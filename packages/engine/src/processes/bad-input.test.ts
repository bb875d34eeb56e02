import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../kernel/codec/codec.js'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms', codec: createCodec({ maxBytes: 10_000 }) })
})
afterAll(() => bus.close())

const domain = numbered('bad-input')
const code = (expected: string) => expect.objectContaining({ code: expected })

const Plain = defineProcess('bad-input', 'Plain', {
  state: z.object({ n: z.number() }),
  responses: {
    told: {
      data: z.object({ n: z.number() }),
      apply: (state, { n }) => {
        state.n = n
      },
    },
  },
  execute: async (ctx) => void (await ctx.event('told', 'told')),
})

/** A process that runs this and nothing else; where it stands afterwards. */
async function run(execute: (ctx: ProcessContext, state: Record<string, unknown>) => Promise<unknown>) {
  const Bad = defineProcess(domain(), 'Bad', {
    state: z.record(z.string(), z.unknown()),
    execute: async (ctx: ProcessContext, state) => execute(ctx, state),
  })
  const { id } = await bus.hf.start(Bad, {})
  return { id, ...(await bus.process(id)) }
}

test.each<[string, unknown]>([
  ['an unknown option', { ...options(), exekute: () => undefined }],
  ['no execute', { state: z.any() }],
  ['no schema', { execute: async () => undefined }],
  ['a version of nought', { ...options(), version: 0 }],
  ['an unknown deadline action', { ...options(), deadlineAction: 'EXPLODE' }],
  ['a reducer that is no function', { ...options(), responses: { told: { data: z.any(), apply: 5 } } }],
  ['a response without a schema', { ...options(), responses: { told: {} } }],
  ['a response with a name of ours', { ...options(), responses: { '@child': { data: z.any() } } }],
  ['a hook that is no function', { ...options(), onCompleted: 'tell' }],
  ['a wait timeout that is no duration', { ...options(), waitTimeout: 'soon' }],
])('P-01 a definition with %s is refused', (_, bad) => {
  expect(() => Reflect.apply(defineProcess, undefined, ['d', 'T', bad])).toThrow(/HF_|defineProcess d\/T/)
})

test.each(['', 'a/b', 'a b', 'x'.repeat(101)])('P-01 an invalid name is refused: %j', (name) => {
  expect(() => defineProcess(name, 'T', options())).toThrow(code('HF_INVALID_OPTION'))
  expect(() => defineProcess('d', name, options())).toThrow(code('HF_INVALID_OPTION'))
})

function options() {
  return { state: z.any(), execute: async () => undefined }
}

test('P-01 two definitions of one type are refused, one twice is not', () => {
  const First = defineProcess('bad-input-twice', 'Pay', options())
  bus.hf.register(First)
  bus.hf.register(First)
  expect(() => bus.hf.register(defineProcess('bad-input-twice', 'Pay', options()))).toThrow(
    code('HF_DUPLICATE_DEFINITION'),
  )
  expect(() => bus.hf.register(JSON.parse('{"name": "Pay"}'))).toThrow(code('HF_INVALID_OPTION'))
})

test('P-10 a state that fails its schema, is too large or cannot be encoded starts nothing', async () => {
  const before = await bus.sql('select count(*) from holdfast.process')
  await expect(bus.hf.start(Plain, JSON.parse('{"n":"x"}'))).rejects.toThrow(code('HF_INVALID_DATA'))
  const Any = defineProcess('bad-input', 'Any', options())
  await expect(bus.hf.start(Any, 'x'.repeat(10_001))).rejects.toThrow(code('HF_TOO_LARGE'))
  await expect(bus.hf.start(Any, { f: () => 1 })).rejects.toThrow(code('HF_NOT_ENCODABLE'))
  await expect(bus.hf.start(Any, { text: '\u0000' })).rejects.toThrow(code('HF_NOT_ENCODABLE'))
  await expect(bus.hf.start(Any, {}, { id: 'no uuid' })).rejects.toThrow(code('HF_INVALID_ID'))
  await expect(bus.hf.start(Any, {}, { key: '' })).rejects.toThrow(code('HF_INVALID_KEY'))
  await expect(bus.hf.start(Any, {}, JSON.parse('{"deadline": "soon"}'))).rejects.toThrow(code('HF_INVALID_DURATION'))
  await expect(bus.hf.start(Any, {}, JSON.parse('{"defered": true}'))).rejects.toThrow(code('HF_UNKNOWN_OPTION'))
  await expect(bus.hf.startMany(Any, [])).rejects.toThrow(code('HF_INVALID_OPTION'))
  await expect(bus.hf.startMany(Plain, [{ input: { n: 1 } }, { input: JSON.parse('{}') }])).rejects.toThrow(
    /processes\[1\]/,
  )
  const twice = newId()
  await expect(
    bus.hf.startMany(Any, [
      { input: 1, id: twice },
      { input: 2, id: twice },
    ]),
  ).rejects.toThrow(/processes\[1\]\.id` is that of processes\[0\]/)
  expect(await bus.sql('select count(*) from holdfast.process')).toEqual(before)
})

test('P-11 an unknown process, one of another type, an unknown response, bad data: each a clear error', async () => {
  const Other = defineProcess('bad-input', 'Other', {
    state: z.any(),
    responses: { told: { data: z.any() } },
    execute: async (ctx) => void (await ctx.event('told', 'told')),
  })
  const { id } = await bus.hf.start(Plain, { n: 1 }, { key: 'KNOWN' })
  const told = { n: 2 }
  await expect(bus.hf.process(Plain, newId()).respond('told', told)).rejects.toThrow(code('HF_NOT_FOUND'))
  await expect(bus.hf.process(Plain, 'UNKNOWN KEY').respond('told', told)).rejects.toThrow(code('HF_NOT_FOUND'))
  await expect(bus.hf.process(Other, id).respond('told', told)).rejects.toThrow(code('HF_OTHER_TYPE'))
  await expect(bus.hf.process(Other, 'KNOWN').respond('told', told)).rejects.toThrow(code('HF_NOT_FOUND'))
  await expect(bus.hf.process(Plain, id).respond('tolt' as 'told', told)).rejects.toThrow(code('HF_UNKNOWN_RESPONSE'))
  await expect(bus.hf.process(Plain, id).respond('told', JSON.parse('{"n":"x"}'))).rejects.toThrow(
    code('HF_INVALID_DATA'),
  )
  await expect(bus.hf.process(Plain, id).respond('told', told, { responseId: '' })).rejects.toThrow(
    code('HF_INVALID_OPTION'),
  )
  expect(await bus.sql('select 1 from holdfast.process_response where process_id = $1', [id])).toEqual([])
})

test('P-10 an id that belongs to another definition is refused', async () => {
  const { id } = await bus.hf.start(Plain, { n: 1 })
  const Another = defineProcess('bad-input', 'Another', options())
  await expect(bus.hf.start(Another, {}, { id })).rejects.toThrow(code('HF_OTHER_TYPE'))
})

test.each<[string, (ctx: ProcessContext, state: Record<string, unknown>) => Promise<unknown>, RegExp]>([
  ['a name for two kinds', (ctx) => Promise.all([ctx.step('a', () => 1), ctx.sleep('a', 1)]), /HF_STEP_NAME_REUSED/],
  [
    'a result over the limit',
    (ctx) => ctx.step('large', () => 'x'.repeat(10_001)),
    /HF_TOO_LARGE.*the result of large/,
  ],
  ['a result that cannot be encoded', (ctx) => ctx.step('fn', () => ({ f: () => 1 })), /the result of fn\.f/],
  ['a result with \\u0000', (ctx) => ctx.step('nul', () => 'a\u0000b'), /HF_NOT_ENCODABLE.*nul/],
  [
    'a transaction’s result over the limit',
    (ctx) => ctx.transaction('t', async () => 'x'.repeat(10_001)),
    /the result of t/,
  ],
  ['a result of execute over the limit', async () => 'x'.repeat(10_001), /HF_TOO_LARGE.*result of the process/],
  [
    'a request that cannot be encoded',
    (ctx) => ctx.step('r', () => 1, { request: () => 1 }),
    /HF_NOT_ENCODABLE.*step r: request/,
  ],
  ['a request with \\u0000', (ctx) => ctx.step('r', () => 1, { request: '\u0000' }), /HF_NOT_ENCODABLE/],
  ['an unknown option', (ctx) => ctx.step('s', () => 1, JSON.parse('{"tiemout": 1}')), /HF_UNKNOWN_OPTION.*timeout/],
  ['no function', (ctx) => ctx.step('s', JSON.parse('{}')), /work.*must be a function/],
  ['a name of ours', (ctx) => ctx.step('@s', () => 1), /must not begin with @/],
  ['an empty name', (ctx) => ctx.step('', () => 1), /HF_INVALID_OPTION/],
  ['an unknown event', (ctx) => ctx.event('e', JSON.parse('"nonsense"')), /HF_UNKNOWN_RESPONSE/],
  ['a bad duration', (ctx) => ctx.sleep('z', JSON.parse('"soon"')), /HF_INVALID_DURATION/],
  ['an invalid date', (ctx) => ctx.sleep('z', new Date(Number.NaN)), /must be a valid date/],
  [
    'a condition that throws',
    (ctx) => ctx.wait('w', () => JSON.parse('{')),
    /^HF_CONDITION_THREW: the condition of the wait `w` threw: .*JSON/,
  ],
  [
    'a condition that throws a business error: it is no place to decide',
    (ctx) =>
      ctx.wait('w', () => {
        throw new BusinessError('declined')
      }),
    /the condition of the wait `w` threw: declined/,
  ],
  [
    'a condition that writes',
    (ctx, state) => ctx.wait('w', () => Boolean(Object.assign(state, { n: 1 }))),
    /the condition of the wait `w` threw: HF_STATE_WRITE_IN_STEP/,
  ],
  [
    'a step in a step',
    (ctx) => ctx.step('s', () => ctx.step('t', () => 1), { timeout: 20 }),
    /HF_CALL_OUT_OF_PLACE.*`t`/,
  ],
  [
    'a call after something else was awaited',
    (ctx) => new Promise((resolve) => setTimeout(resolve, 5)).then(() => ctx.step('s', () => 1)),
    /HF_CALL_OUT_OF_PLACE.*`s`/,
  ],
  ['no child', (ctx) => ctx.child('c', JSON.parse('{"name":"x"}'), {}), /must be made with defineProcess/],
  ['something thrown that is no error', () => Promise.reject('just a text'), /just a text/],
])('bad input in execute is the process’s own failure, with a code: %s', async (_, execute, message) => {
  const { status, error_message, error_code } = await run(execute)
  expect(error_message).toMatch(message)
  expect([status, error_code]).toEqual(['WAITING_FOR_TSQ', 'PERMANENT_FAILURE'])
})

test.each<[string, (ctx: ProcessContext, state: Record<string, unknown>) => Promise<unknown>]>([
  ['in its first part', (ctx, state) => ctx.step('s', () => (state.n = 1))],
  ['after an await', (ctx, state) => ctx.step('s', () => Promise.resolve().then(() => (state.n = 1)))],
  [
    'after a while',
    (ctx, state) => ctx.step('s', () => new Promise((resolve) => setTimeout(resolve, 5)).then(() => (state.n = 1))),
  ],
  [
    'nested',
    async (ctx, state) => {
      state.list = [{ n: 1 }]
      await ctx.step('s', () => (state.list as number[]).push(1))
    },
  ],
  ['in a side effect', (ctx, state) => ctx.sideEffect('s', () => (state.n = 1))],
  ['in a transaction', (ctx, state) => ctx.transaction('s', async () => (state.n = 1))],
])('P-02 a write to the state inside run is refused: %s', async (_, execute) => {
  const { status, error_message, state } = await run(execute)
  expect(status).toBe('WAITING_FOR_TSQ')
  expect(error_message).toContain('HF_STATE_WRITE_IN_STEP')
  expect(state).not.toHaveProperty('n')
})

test('P-02 writes in execute between the steps are fine, also after a caught failure', async () => {
  const { status, state } = await run(async (ctx, own) => {
    own.list = [1]
    await ctx.step('a', () => 1)
    ;(own.list as number[]).push(2)
    await ctx
      .step('b', () => Promise.reject(new Error('no')), { onFailure: 'throw' })
      .catch(() => {
        own.caught = true
      })
    own.map = new Map([['a', new Date(1)]])
    await Promise.all([ctx.step('c', () => 1).then(() => (own.c = 1)), ctx.sleep('d', 0).then(() => (own.d = 1))])
  })
  expect(status).toBe('COMPLETED')
  expect(state).toMatchObject({ list: [1, 2], caught: true, c: 1, d: 1 })
})

test('a state that has grown over the limit is the process’s own failure', async () => {
  const { status, error_code, state } = await run(async (ctx, own) => {
    own.text = 'x'.repeat(10_001)
    await ctx.sleep('z', '1h')
  })
  expect([status, error_code]).toEqual(['WAITING_FOR_TSQ', 'HF_TOO_LARGE'])
  expect(state).toEqual({})
})

test('P-11 a reducer that throws sends its process to troubleshooting, and no other', async () => {
  let broken = true
  const Broken = defineProcess(domain(), 'Broken', {
    state: z.object({ n: z.number() }),
    responses: {
      told: {
        data: z.number(),
        apply(state, n) {
          if (broken && n === 13) throw new Error('thirteen')
          state.n = n
        },
      },
    },
    async execute(ctx, state) {
      await ctx.wait('told', () => state.n > 0)
      return state.n
    },
  })
  await bus.runProcesses(Broken)
  const bad = await bus.hf.start(Broken, { n: 0 })
  const good = await bus.hf.start(Broken, { n: 0 })
  await Promise.all([
    bus.hf.process(Broken, bad.id).respond('told', 13),
    bus.hf.process(Broken, good.id).respond('told', 1),
  ])
  const { error_code, error_message } = await bus.rests(bad.id, 'WAITING_FOR_TSQ')
  expect([error_code, error_message]).toEqual([
    'PERMANENT_FAILURE',
    expect.stringContaining('HF_REDUCER_THREW: the reducer of the response `told` threw: thirteen'),
  ])
  await bus.rests(good.id, 'COMPLETED')
  // Mended, the same response is met again.
  broken = false
  await bus.retry(bad.id)
  expect((await bus.rests(bad.id, 'COMPLETED')).result).toBe(13)
})

test('P-09 a reducer that throws on a replay too needs a person, not five crashes', async () => {
  let broken = false
  const Broken = defineProcess(domain(), 'Broken', {
    state: z.object({ n: z.number() }),
    responses: {
      told: {
        data: z.number(),
        apply(state, n) {
          if (broken) throw new Error('broken since yesterday')
          state.n = n
        },
      },
    },
    async execute(ctx, state) {
      await ctx.wait('told', () => state.n > 0)
      await ctx.sleep('a while', '1h')
    },
  })
  const { id } = await bus.hf.start(Broken, { n: 0 })
  await bus.runProcesses(Broken)
  await bus.hf.process(Broken, id).respond('told', 1)
  await waitFor('it sleeps', async () => (await bus.process(id)).waiting_for === 'a while')
  broken = true
  await bus.wakeUp(id)
  const { error_code, error_message, state } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect([error_code, error_message]).toEqual([
    'PERMANENT_FAILURE',
    expect.stringContaining('HF_REDUCER_THREW: the reducer of the response `told` threw: broken since yesterday'),
  ])
  expect(state).toEqual({ n: 1 })
})

test('an error that a step’s own code catches does not fail the step', async () => {
  const { status, error_code, error_message } = await run(async (ctx) => {
    try {
      await ctx.step('fails', () => Promise.reject(new Error('down')))
    } catch {
      return 'swallowed'
    }
    return 'not reached'
  })
  // Without onFailure 'throw' nothing is thrown that could be swallowed.
  expect([status, error_code]).toEqual(['WAITING_FOR_TSQ', 'PERMANENT_FAILURE'])
  expect(error_message).toContain('down')
})
