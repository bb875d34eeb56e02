import { AsyncLocalStorage } from 'node:async_hooks'
import type { Faults } from '../harness/faults.js'

/**
 * Which worker of a crash test the code that runs belongs to. A worker that was "killed" within this process stops dead at
 * its next fault point; fake services ask here whether their caller is dead, so that a dead one has no more effects.
 */
export interface Living {
  readonly faults: Faults
  isDead(): boolean
}

const living = new AsyncLocalStorage<Living>()

/** Everything that this starts, timers and promises included, belongs to the life. */
export function livingIn<T>(life: Living, work: () => T): T {
  return living.run(life, work)
}

const never = new Promise<never>(() => undefined)

/** Passes a fault point of the life that runs this; of a dead one nobody gets past it. Outside of any life it is nothing. */
export async function passPoint(point: string): Promise<void> {
  const life = living.getStore()
  if (!life) return
  await (life.isDead() ? never : life.faults(point))
  if (life.isDead()) await never
}
