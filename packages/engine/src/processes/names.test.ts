import { numbered, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'
import { defineManager, stepCommand } from './index.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('names')
const Do = defineCommand('names', 'Do', { data: z.any(), result: z.any() })
const Child = defineProcess('names', 'Child', { state: z.any(), execute: async () => undefined })

const kinds: [string, (ctx: ProcessContext, name: string, called: () => void) => Promise<unknown>][] = [
  ['step', (ctx, name, run) => ctx.step(name, run)],
  ['sideEffect', (ctx, name, run) => ctx.sideEffect(name, run)],
  ['transaction', (ctx, name, run) => ctx.transaction(name, async () => run())],
  ['wait', (ctx, name) => ctx.wait(name, () => true)],
  ['sleep', (ctx, name) => ctx.sleep(name, 1)],
  ['command', (ctx, name) => ctx.command(name, Do, 1)],
  ['child', (ctx, name) => ctx.child(name, Child, 1)],
]

test.each(kinds)(
  'K-24 a %s whose name is ambiguous or cannot be stored is refused before anything is called',
  async (_, call) => {
    let calls = 0
    for (const name of ['a#2', 'a/b', 'a\u0000', 'a\ud83d', '', 'x'.repeat(201)]) {
      const Bad = defineProcess(domain(), 'Bad', {
        state: z.any(),
        execute: async (ctx: ProcessContext) => void (await call(ctx, name, () => (calls += 1))),
      })
      const { id, status } = await (await bus.hf.start(Bad, {})).get()
      expect(status).toBe('WAITING_FOR_TSQ')
      expect((await bus.process(id)).error_message).toMatch(/HF_INVALID_OPTION: a call of ctx: .*name/)
      expect(await bus.history(id)).toEqual([])
    }
    expect(calls).toBe(0)
  },
)

test('K-24 keys of steps, their repetitions, their compensations and their generations are all different', async () => {
  const keys: string[] = []
  const Keys = defineProcess(domain(), 'Keys', {
    state: z.object({ round: z.number() }),
    async execute(ctx, { round }) {
      const names = ['2', 'compensate', 'a', 'a', 'a 2', '1']
      for (const name of names) {
        await ctx.step(name, ({ idempotencyKey }) => keys.push(idempotencyKey), {
          compensate: (_result, { idempotencyKey }) => keys.push(idempotencyKey),
        })
      }
      keys.push(ctx.uuid())
      if (round < 3) await ctx.continueAsNew({ round: round + 1 }, { keepEffects: true })
      throw new BusinessError('undo it')
    },
  })
  await bus.runProcesses(Keys)
  const { id } = await bus.hf.start(Keys, { round: 1 })
  await bus.rests(id, 'COMPENSATED')
  expect(keys).toHaveLength(3 * 6 + 6 + 3)
  expect(new Set(keys).size).toBe(keys.length)
})

test('K-24 ids of commands never equal ids that the process draws', async () => {
  const drawn: string[] = []
  const Ids = defineProcess(domain(), 'Ids', {
    state: z.any(),
    async execute(ctx) {
      drawn.push(ctx.uuid())
      await ctx.command('uuid 1', Do, 1)
    },
  })
  const { id } = await bus.hf.start(Ids, {})
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  const [sent] = await bus.sql<{ id: string }>(
    "select detail ->> 'startedId' as id from holdfast.process_history where process_id = $1",
    [id],
  )
  expect(sent?.id).toMatch(/^[0-9a-f-]{36}$/)
  expect(drawn).not.toContain(sent?.id)
})

test('K-24 names of responses and of the steps of a manager are checked where they are defined', () => {
  const define = (name: string) => () =>
    defineProcess('names', 'Bad', {
      state: z.any(),
      responses: { [name]: { data: z.any() } },
      execute: async () => undefined,
    })
  expect(define('a/b')).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
  const manager = (step: string) => () =>
    defineManager('names', 'Bad', {
      state: z.any(),
      steps: [step],
      firstStep: () => step,
      command: () => stepCommand(Do, 1),
      onReply: (state) => state,
      nextStep: () => null,
    })
  expect(manager('a#2')).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
  expect(manager('a')).not.toThrow()
})
