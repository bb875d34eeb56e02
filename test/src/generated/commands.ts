import type { Effects, FaultTestOptions } from '@holdfast/testing'
import { createEffects, createRandom, expectEveryEffectKeptOrUndone } from '@holdfast/testing'
import { defineCommand, type Holdfast } from 'holdfast'
import { z } from 'zod'
import { FAULTS } from './faults.js'

const by = { actor: 'ann', reason: 'generated' }
const NAME = 'pay'

const options = { data: z.object({ seed: z.number() }), retry: { delays: ['20ms'] }, timeout: '60ms' } as const
const Pay = defineCommand('generated', 'Pay', { ...options, retry: { maxAttempts: 3, delays: ['20ms'] } })
const PayPatiently = defineCommand('generated', 'PayPatiently', {
  ...options,
  retry: { maxAttempts: 8, delays: ['20ms'] },
})
// The bank does not recognise repetitions of these: K-20.
const PayOnce = defineCommand('generated', 'PayOnce', { ...options, atMostOnce: true })
const PayOnceOrAsk = defineCommand('generated', 'PayOnceOrAsk', {
  ...options,
  atMostOnce: true,
  retry: { maxAttempts: 3, delays: ['20ms'] },
})
const KINDS = [Pay, PayPatiently, PayOnce, PayOnceOrAsk] as const

/**
 * Commands on a simulated bank, some of which must not be repeated. Nothing undoes them: what has had its effect must end
 * completed.
 */
export function generatedCommands(): Omit<FaultTestOptions<Effects>, 'seeds'> {
  return {
    world: (seed) => createEffects({ seed, faults: FAULTS }),
    setup(hf, bank) {
      for (const command of KINDS) {
        const once = command === PayOnce || command === PayOnceOrAsk
        hf.handle(
          command,
          (_, { commandId, idempotencyKey, signal }) =>
            bank.perform({ execution: commandId, name: NAME, idempotencyKey, signal, once }),
          command === PayOnceOrAsk
            ? { inquire: (_, { commandId }) => bank.inquire({ execution: commandId, name: NAME }) }
            : {},
        )
      }
    },
    async start(hf, _, seed) {
      const command = KINDS[Math.floor(createRandom(`command ${seed}`)() * KINDS.length)] ?? Pay
      return (await hf.send(command, { seed })).id
    },
    attend,
    invariant: ({ world, sql }) => expectEveryEffectKeptOrUndone(world, sql),
  }
}

/** A person asks the bank: what is done is completed, what is not is tried again or given up. */
async function attend(hf: Holdfast, bank: Effects, _: readonly string[], round: number): Promise<void> {
  const of = { domain: Pay.domain }
  for (const { id: commandId, type } of (await hf.trouble.list({ model: 'commands', ...of, limit: 1_000 })).items) {
    const truth = await bank.inquire({ execution: commandId, name: NAME })
    if (truth !== 'notDone') await hf.command({ ...of, type }, commandId).complete(by, truth.done)
    else if (round < 3) await hf.command({ ...of, type }, commandId).retry(by, { notDone: true })
    else await hf.command({ ...of, type }, commandId).cancel(by)
  }
}
