import { AsyncLocalStorage } from 'node:async_hooks'
import type { Faults } from '../harness/faults.js'

/**
 * The worker of a crash test that the running code belongs to. A worker that was "killed" within this process stops at
 * its next fault point; fake services check here whether their caller is dead, so that a dead one has no more effects.
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

/** Passes a fault point of the worker that runs this; code of a dead worker never gets past it. Outside of a worker it does nothing. */
export async function passPoint(point: string): Promise<void> {
  const life = living.getStore()
  if (!life) return
  await (life.isDead() ? never : life.faults(point))
  if (life.isDead()) await never
}
