import { z } from 'zod'

/** In percent, each. */
interface Chances {
  readonly permanentPct: number
  readonly transientPct: number
  readonly businessPct: number
  readonly timeoutPct: number
  readonly pendingPct: number
}

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
  .refine((step) => chancesOf(step).reduce((sum, [, chance]) => sum + chance, 0) <= 100, {
    message: 'the chances add up to more than 100 %',
  })
  .refine(({ minMs, maxMs }) => maxMs === undefined || maxMs >= minMs, {
    message: 'is less than minMs',
    path: ['maxMs'],
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

export type Outcome = 'permanent' | 'transient' | 'business' | 'timeout' | 'pending' | 'success'

/** In this order the dice are read. */
function chancesOf(step: Chances): readonly (readonly [Outcome, number])[] {
  const { permanentPct, transientPct, businessPct, timeoutPct, pendingPct } = step
  return [
    ['permanent', permanentPct],
    ['transient', transientPct],
    ['business', businessPct],
    ['timeout', timeoutPct],
    ['pending', pendingPct],
  ]
}

/**
 * What becomes of one call, and how long it takes: the same for the same dice.
 *
 * @example
 * outcomeOf(behaviour.bookRisk, diceOf('42', 7, 'bookRisk', 1)) // { outcome: 'success', durationMs: 12 }
 */
export function outcomeOf(
  step: StepBehaviour | undefined,
  dice: () => number,
): { readonly outcome: Outcome; readonly durationMs: number } {
  if (!step) return { outcome: 'success', durationMs: 0 }
  const { minMs, maxMs = minMs } = step
  const durationMs = Math.round(minMs + dice() * (maxMs - minMs))
  const roll = dice() * 100
  let upTo = 0
  for (const [outcome, chance] of chancesOf(step)) {
    upTo += chance
    if (roll < upTo) return { outcome, durationMs }
  }
  return { outcome: 'success', durationMs }
}
