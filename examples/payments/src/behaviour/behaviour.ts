import { type BehaviourOptions, checkBehaviour } from '@holdfast/testing'
import { z } from 'zod'

const percent = z.number().min(0).max(100).default(0)
const milliseconds = z.number().int().min(0).max(3_600_000)

/** How one step of the simulated world behaves: chances in percent, and how long it takes. */
export const StepBehaviour = z
  .strictObject({
    permanentPct: percent,
    transientPct: percent,
    businessPct: percent,
    timeoutPct: percent,
    pendingPct: percent,
    minMs: milliseconds.default(0),
    maxMs: milliseconds.optional(),
  })
  .superRefine((step, ctx) => {
    const problem = problemOf(step)
    if (problem !== undefined) ctx.addIssue({ code: 'custom', message: problem })
  })

export type StepBehaviour = z.output<typeof StepBehaviour>

const simulatedSteps = [
  'bookRisk',
  'awaitApproval',
  'bookFx',
  'submit',
  'awaitL1',
  'awaitL2',
  'awaitL3',
  'awaitL4',
  'unwindRisk',
  'unwindFx',
  'recall',
] as const

export type SimulatedStep = (typeof simulatedSteps)[number]

/** How the simulated world treats a payment, step by step; a step that is not named succeeds at once. */
export const Behaviour = z.partialRecord(z.enum(simulatedSteps), StepBehaviour)

export type Behaviour = z.output<typeof Behaviour>

/** Translated to the names of the testing kit. */
export function optionsOf(step: StepBehaviour): BehaviourOptions {
  const { permanentPct, transientPct, businessPct, timeoutPct, pendingPct, minMs, maxMs = minMs } = step
  return {
    permanent: permanentPct,
    transient: transientPct,
    business: businessPct,
    timeout: timeoutPct,
    pending: pendingPct,
    minDuration: minMs,
    maxDuration: maxMs,
  }
}

function problemOf(step: StepBehaviour): string | undefined {
  try {
    checkBehaviour(optionsOf(step))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message.replace('behaviour: ', '') : String(error)
  }
}
