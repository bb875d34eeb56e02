import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { defineProcess } from '../define.js'
import { defineManager, type ManagerOptions } from './define.js'
import { stepCommand } from './step-command.js'
import { resultOf, type StepReply } from './step-reply.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const Pay = defineCommand('defined', 'Pay', {
  data: z.object({ cents: z.int() }),
  result: z.object({ receipt: z.string(), at: z.date() }),
})
const state = z.object({ cents: z.string().transform(Number), note: z.string().default('none') })

const simple = {
  state,
  firstStep: () => 'pay',
  command: () => stepCommand(Pay, { cents: 1 }),
  onReply: (given) => given,
  nextStep: () => null,
} satisfies ManagerOptions<typeof state, string>
const Simple = defineManager('defined', 'Simple', simple)

test('M-01 types flow from the definition to its handlers and its starter', () => {
  defineManager('defined', 'Typed', {
    state,
    steps: ['pay', 'wait'],
    firstStep: () => 'pay',
    command(step, given) {
      expectTypeOf(step).toEqualTypeOf<'pay' | 'wait'>()
      expectTypeOf(given).toEqualTypeOf<{ cents: number; note: string }>()
      return stepCommand(Pay, { cents: given.cents })
    },
    onReply(given, _step, reply) {
      expectTypeOf(resultOf(Pay, reply)).toEqualTypeOf<{ receipt: string; at: Date }>()
      return given
    },
    nextStep: (step) => (step === 'pay' ? 'wait' : null),
  })
  const never = () => {
    // @ts-expect-error a field is missing
    void bus.hf.start(Simple, {})
    // @ts-expect-error of another type
    void bus.hf.start(Simple, { cents: 1 })
    // @ts-expect-error it cannot be left to a worker: its first command goes out with it
    void bus.hf.start(Simple, { cents: '1' }, { immediate: false })
    // @ts-expect-error data of another type
    stepCommand(Pay, { cents: '1' })
    // @ts-expect-error no such step
    defineManager('defined', 'Wrong', { ...simple, steps: ['pay'], nextStep: () => 'nowhere' })
  }
  expect(never).toBeTypeOf('function')
})

test.each([
  [{ ...simple, onReply: undefined }, 'HF_INVALID_OPTION', 'onReply'],
  [{ ...simple, waitOnly: true }, 'HF_INVALID_OPTION', 'waitOnly'],
  [{ ...simple, state: {} }, 'HF_INVALID_OPTION', 'state'],
  [{ ...simple, steps: [] }, 'HF_INVALID_OPTION', 'steps'],
  [{ ...simple, version: 0 }, 'HF_INVALID_OPTION', 'version'],
  [{ ...simple, onReplay: () => 1 }, 'HF_UNKNOWN_OPTION', 'onReply'],
])('M-01 K-13 a definition that cannot work is refused (%#)', (options, code, named) => {
  const define = () => defineManager('defined', 'Bad', options as never)
  expect(define).toThrow(expect.objectContaining({ code, message: expect.stringContaining(named) }))
})

test('M-01 two definitions of one name are refused, whatever they are', () => {
  bus.hf.register(Simple)
  bus.hf.register(Simple)
  const again = defineManager('defined', 'Simple', simple)
  expect(() => bus.hf.register(again)).toThrow(expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION' }))
  const process = defineProcess('defined', 'Simple', { state, execute: async () => undefined })
  expect(() => bus.hf.register(process)).toThrow(expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION' }))
  expect(() => bus.hf.register(undefined as never)).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
})

test('U-02 M-02 a start that is to begin later sends its first command for then', async () => {
  const Later = defineManager('defined', 'Later', simple)
  const delayed = await bus.hf.start(Later, { cents: '1' }, { delay: '1h', deadline: '1d' })
  const startAt = new Date('2100-01-01T00:00:00Z')
  const dated = await bus.hf.start(Later, { cents: '1' }, { startAt, deadline: '1d' })
  const due = async (id: string) => {
    const [command] = (await bus.hf.commands.list({ domain: Pay.domain, type: Pay.type, correlationId: id })).items
    return command && { status: command.status, in: Number(command.dueAt) - Number(command.createdAt) }
  }
  expect(await due(delayed.id)).toMatchObject({ status: 'PENDING' })
  expect(Math.round(((await due(delayed.id))?.in ?? 0) / 60_000)).toBe(60)
  const { deadline, createdAt } = await delayed.get()
  expect(Math.round((Number(deadline) - Number(createdAt)) / 3_600_000)).toBe(25)
  expect(await dated.get()).toMatchObject({ deadline: new Date('2100-01-02T00:00:00Z') })
  const Waits = defineManager('defined', 'Waits', { ...simple, waitOnly: () => true })
  await expect(bus.hf.start(Waits, { cents: '1' }, { delay: '1h' })).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
  })
})

test('M-02 a start that cannot work is refused, and nothing is written', async () => {
  const rows = async () => (await bus.sql('select id from holdfast.process_detail')).length
  const before = await rows()
  const failing = (more: object) => defineManager('defined', 'Failing', { ...simple, ...more })
  const start = (more: object, given: object = { cents: '1' }, options: object = {}) =>
    bus.hf.start(failing(more), given as never, options as never)
  await expect(start({}, { cents: 1 })).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  await expect(start({}, { cents: '1' }, { immediate: false })).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
  await expect(start({}, { cents: '1' }, { attributes: { a: {} } })).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
  })
  await expect(start({ firstStep: () => 5 })).rejects.toMatchObject({ code: 'UNKNOWN_STEP' })
  await expect(start({ steps: ['other'] })).rejects.toMatchObject({ code: 'UNKNOWN_STEP' })
  await expect(start({ command: () => undefined })).rejects.toMatchObject({ code: 'UNKNOWN_STEP' })
  await expect(start({ command: async () => 1 })).rejects.toMatchObject({ code: 'ASYNC_HANDLER' })
  await expect(start({ command: () => stepCommand(Pay, { cents: 'x' as never }) })).rejects.toMatchObject({
    code: 'HF_INVALID_DATA',
  })
  await expect(
    start({
      firstStep: () => {
        throw new Error('not today')
      },
    }),
  ).rejects.toThrow('not today')
  const unfit = defineManager('No_queue', 'Simple', simple)
  await expect(bus.hf.start(unfit, { cents: '1' })).rejects.toMatchObject({ code: 'HF_INVALID_QUEUE_NAME' })
  expect(await rows()).toBe(before)
})

test('M-02 an id whose first command exists already is refused, in flushes and in the caller’s transaction', async () => {
  const { id } = await bus.hf.start(Simple, { cents: '1' })
  await bus.sql('delete from holdfast.process where id = $1', [id])
  await bus.sql('delete from holdfast.process_detail where id = $1', [id])
  await bus.sql('delete from holdfast.process_history where process_id = $1', [id])
  const [refused, started] = await Promise.allSettled([
    bus.hf.start(Simple, { cents: '1' }, { id }),
    bus.hf.start(Simple, { cents: '1' }),
  ])
  expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'HF_DUPLICATE_COMMAND' } })
  expect(started.status).toBe('fulfilled')
  await expect(
    bus.db.transaction((transaction) => bus.hf.start(Simple, { cents: '1' }, { id, transaction })),
  ).rejects.toMatchObject({ code: 'HF_DUPLICATE_COMMAND' })
})

test('M-02 a dropped reply queue is created again', async () => {
  await bus.hf.queues.drop('defined__process_replies')
  const { id } = await bus.hf.start(Simple, { cents: '1' })
  expect((await bus.hf.commands.list({ correlationId: id })).items).toHaveLength(1)
  expect(await bus.hf.queues.exists('defined__process_replies')).toBe(true)
})

test('P-18 a worker does not claim processes of a newer version', async () => {
  const newer = defineManager('versions', 'Grown', { ...simple, version: 2 })
  const older = defineManager('versions', 'Grown', simple)
  const seen: StepReply[] = []
  const current = defineManager('versions', 'Grown', {
    ...simple,
    version: 2,
    onReply: (given, _step, reply) => {
      seen.push(reply)
      return given
    },
  })
  bus.hf.handle(Pay, () => ({ receipt: 'r', at: new Date(0) }))
  bus.hf.register(older)
  await bus.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(newer, { cents: '1' })
  await waitFor('the reply is left for others', async () => {
    const [row] = await bus.sql<{ left: boolean }>(
      'select bool_and(vt > holdfast.now() and read_ct = 0) as left from pgmq.q_versions__process_replies',
    )
    return row?.left
  })
  const other = await openTestBus({ connectionString: bus.connectionString })
  other.hf.register(current)
  await other.hf.run({ poll: '20ms', domains: ['versions'] })
  await waitFor('the newer worker has taken it', async () => {
    const [row] = await bus.sql<{ status: string }>('select status from holdfast.process where id = $1', [id])
    return row?.status === 'COMPLETED'
  })
  expect(seen).toMatchObject([{ outcome: 'SUCCESS', result: { receipt: 'r', at: new Date(0) } }])
  await other.close()
})
