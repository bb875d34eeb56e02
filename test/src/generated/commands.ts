import type { Effects, FaultTestOptions } from '@holdfast/testing'
import { createEffects, createRandom, expectEveryEffectKeptOrUndone } from '@holdfast/testing'
import { defineCommand, type Holdfast } from 'holdfast'
import { z } from 'zod'
import { FAULTS } from './faults.js'

const by = { actor: 'ann', reason: 'generated' }
const NAME = 'pay'

const options = { data: z.object({ seed: z.number() }), retry: ['20ms'], timeout: '60ms' } as const
const Pay = defineCommand('generated', 'Pay', { ...options, maxAttempts: 3 })
const PayPatiently = defineCommand('generated', 'PayPatiently', { ...options, maxAttempts: 8 })

/** Commands on a simulated bank. Nothing undoes them: what has had its effect must end completed. */
export function generatedCommands(): Omit<FaultTestOptions<Effects>, 'seeds'> {
  return {
    world: (seed) => createEffects({ seed, faults: FAULTS }),
    setup(hf, bank) {
      for (const command of [Pay, PayPatiently]) {
        hf.handle(command, (_, { commandId, idempotencyKey, signal }) =>
          bank.perform({ execution: commandId, name: NAME, idempotencyKey, signal }),
        )
      }
    },
    start(hf, _, seed) {
      const command = createRandom(`command ${seed}`)() < 0.5 ? Pay : PayPatiently
      return hf.send(command, { seed })
    },
    attend,
    invariant: ({ world, sql }) => expectEveryEffectKeptOrUndone(world, sql),
  }
}

/** A person asks the bank: what is done is completed, what is not is tried again or given up. */
async function attend(hf: Holdfast, bank: Effects, _: readonly string[], round: number): Promise<void> {
  for (const { commandId } of await hf.troubleshooting.list({ domain: Pay.domain, limit: 1_000 })) {
    const truth = await bank.inquire({ execution: commandId, name: NAME })
    if (truth !== 'notDone') await hf.troubleshooting.complete(Pay, commandId, { ...by, result: truth.done })
    else if (round < 3) await hf.troubleshooting.retry({ domain: Pay.domain }, commandId, by)
    else await hf.troubleshooting.cancel(Pay, commandId, by)
  }
}
