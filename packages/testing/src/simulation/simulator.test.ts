import { defineProcess, type ProcessRecord } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { waitFor } from '../harness/wait-for.js'
import { testKit } from '../kit/test-kit.js'
import { behaviour } from './behaviour.js'
import { createSimulator, type SimulatedAnswer } from './simulator.js'

const Payment = defineProcess('payments', 'Payment', {
  state: z.object({ level: z.number().default(0), refused: z.string().optional() }),
  responses: {
    confirmed: {
      data: z.object({ level: z.number() }),
      apply: (state, { level }) => {
        state.level = Math.max(state.level, level)
      },
    },
    refused: {
      data: z.object({ code: z.string() }),
      apply: (state, { code }) => {
        state.refused = code
      },
    },
  },
  async execute(ctx, state) {
    for (const level of [1, 2]) {
      await ctx.wait(`L${level}`, () => state.level >= level || state.refused !== undefined, { timeout: '5m' })
    }
    return state.refused ?? `L${state.level}`
  },
})

test('A-04 X-01 a simulated network responds to waits: with success, with an error, through people, or never', async () => {
  const kit = await testKit({ register: [Payment] })
  onTestFinished(() => kit.close())
  const people: string[] = []
  const network = createSimulator<ProcessRecord>({
    find: async () => (await kit.hf.processes.list({ status: 'WAITING_FOR_ASYNC', limit: 1_000 })).items,
    key: ({ key, waitingFor }) => `${key}/${waitingFor}`,
    behaviour: behaviour({ permanent: 5, transient: 5, business: 5, timeout: 10, pending: 10 }, 7),
    async answer({ id, waitingFor }, answer) {
      if (answer.kind === 'PENDING') people.push(id)
      else if (answer.kind === 'ERROR') await kit.hf.process(Payment, id).respond('refused', { code: answer.code })
      else await kit.hf.process(Payment, id).respond('confirmed', { level: Number(waitingFor?.slice(1)) })
    },
  })
  await kit.hf.startMany(
    Payment,
    Array.from({ length: 100 }, (_, place) => ({ input: {}, key: `PAY-${place}` })),
  )
  await kit.drain()
  while ((await network.cycle()) > 0) await kit.drain()

  const { SUCCESS, PENDING, TIMEOUT, PERMANENT, TRANSIENT, BUSINESS } = network.outcomes
  const left = (await kit.hf.processes.list({ status: 'WAITING_FOR_ASYNC', limit: 1_000 })).items
  // Who was left alone and who waits for a person waits on; nobody is answered twice.
  expect(left).toHaveLength(PENDING + TIMEOUT)
  expect(people).toHaveLength(PENDING)
  for (const count of [SUCCESS, PENDING, TIMEOUT, PERMANENT, TRANSIENT, BUSINESS]) expect(count).toBeGreaterThan(0)
  expect(await network.cycle()).toBe(0)

  await kit.drain({ skipTime: true })
  const timedOut = (await kit.hf.processes.list({ status: 'WAITING_FOR_TSQ', limit: 1_000 })).items
  expect(timedOut).toHaveLength(PENDING + TIMEOUT)
}, 60_000)

test('A-04 a response that fails is sent again in the next cycle, and does not delay the others', async () => {
  const answered: string[] = []
  const problems: unknown[] = []
  const simulator = createSimulator<string>({
    find: async () => ['a', 'b'],
    key: (wait) => wait,
    answer(wait) {
      if (wait === 'a' && problems.length === 0) throw new Error('not now')
      answered.push(wait)
    },
    onError: (error, wait) => void problems.push([wait, String(error)]),
  })
  expect(await simulator.cycle()).toBe(1)
  expect(await simulator.cycle()).toBe(1)
  expect(await simulator.cycle()).toBe(0)
  expect(answered).toEqual(['b', 'a'])
  expect(problems).toEqual([['a', 'Error: not now']])
})

test('A-04 a started simulator polls by itself; a wait that ends and begins again gets another response', async () => {
  let waits: readonly string[] = ['L1']
  const said: SimulatedAnswer[] = []
  const simulator = createSimulator<string>({
    every: '5ms',
    find: async () => waits,
    key: (wait) => wait,
    behaviour: () => behaviour({ business: 100, minDuration: '20ms' }, 1),
    answer: (_, answer) => void said.push(answer),
  })
  simulator.start()
  await waitFor('it has answered', () => said.length === 1)
  expect(said).toEqual([{ kind: 'ERROR', code: 'BIZ_ERROR', message: 'simulated business failure' }])
  waits = []
  await simulator.cycle()
  waits = ['L1']
  await waitFor('it has answered again', () => said.length === 2)
  await simulator.stop()
  expect(simulator.outcomes.BUSINESS).toBe(2)
})

test('A-04 several waits get responses at once, and the random draw may depend on something else than the key', async () => {
  const underWay = new Set<string>()
  let most = 0
  const outcomesOf = async (run: string) => {
    const said = new Map<number, string>()
    const simulator = createSimulator<number>({
      atOnce: 3,
      find: async () => Array.from({ length: 20 }, (_, n) => n),
      key: (wait) => `${run}/${wait}`,
      rollKey: (wait) => `${wait}`,
      behaviour: behaviour({ business: 50 }, 3),
      async answer(wait, { kind }) {
        underWay.add(`${wait}`)
        most = Math.max(most, underWay.size)
        await new Promise((resolve) => setImmediate(resolve))
        underWay.delete(`${wait}`)
        said.set(wait, kind)
      },
    })
    expect(await simulator.cycle()).toBe(20)
    return [...said].toSorted(([a], [b]) => a - b)
  }
  const first = await outcomesOf('first')
  expect(await outcomesOf('second')).toEqual(first)
  expect(new Set(first.map(([, kind]) => kind))).toEqual(new Set(['SUCCESS', 'ERROR']))
  expect(most).toBe(3)
})
