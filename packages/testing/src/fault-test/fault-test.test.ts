import { BusinessError, defineCommand, defineProcess, type Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { createEffects, type Effects } from '../effects/effects.js'
import { expectEveryEffectKeptOrUndone } from '../effects/expect-effects.js'
import { faultTest } from './fault-test.js'

const by = { actor: 'ann', reason: 'a test' }
const Pay = defineCommand('shop', 'Pay', { data: z.object({ n: z.number() }), retry: ['10ms'], timeout: '50ms' })

test('X-02 commands hold under random kills, stops and lost responses', async () => {
  const report = await faultTest({
    seeds: 20,
    together: 10,
    deaths: 3,
    world: (seed) => createEffects({ seed, faults: { lostAnswer: 20, unreachable: 10, late: 5 } }),
    setup: (hf: Holdfast, bank: Effects) =>
      hf.handle(Pay, (_, { commandId, idempotencyKey, signal }) =>
        bank.perform({ execution: commandId, name: 'pay', idempotencyKey, signal }),
      ),
    start: async (hf, _, n) => (await hf.send(Pay, { n })).id,
    async attend(hf) {
      await hf.trouble.retry({ model: 'commands' }, by)
    },
    invariant: ({ world, sql }) => expectEveryEffectKeptOrUndone(world, sql),
  })
  expect(report.executions).toBe(20)
  expect(report.deaths).toBeGreaterThan(0)
}, 60_000)

test('X-02 code that forgets an effect is found, with the seed and the command that reruns it', async () => {
  const forgetful = (bank: Effects) =>
    defineProcess('shop', 'Forgetful', {
      state: z.object({ seed: z.number() }),
      async execute(ctx, { seed }) {
        await ctx.step('pay', ({ idempotencyKey }) => bank.perform({ execution: ctx.id, name: 'pay', idempotencyKey }))
        if (seed === 3) throw new BusinessError('sold out', { code: 'SOLD_OUT' })
      },
    })
  const failing = faultTest({
    seeds: 4,
    deaths: 0,
    world: () => createEffects(),
    register: (bank) => [forgetful(bank)],
    start: async (hf, bank, seed) => (await hf.start(forgetful(bank), { seed }, { immediate: false })).id,
    invariant: ({ world, sql }) => expectEveryEffectKeptOrUndone(world, sql),
  })
  await expect(failing).rejects.toThrow(
    /forgotten: pay of seed 3, \S+ \(called, made, answered\); the execution is COMPENSATED \(SOLD_OUT\)\n {2}rerun this batch: from: 1, seeds: 4/,
  )
}, 60_000)
