import type { Body } from './process-library.js'

const STEPS = ['a', 'b', 'c', 'd', 'e']

/** The process that most workloads run. `done` is called when it is about to end, `took` with the milliseconds of a step. */
export function fiveSteps({ done, took }: { done?: () => void; took?: (ms: number) => void }): Body {
  return async ({ step }) => {
    for (const name of STEPS) {
      const began = performance.now()
      await step(name)
      took?.(performance.now() - began)
    }
    done?.()
  }
}

/** A process that needs an answer from outside. */
export function waitBetweenSteps({ done }: { done?: () => void }): Body {
  return async ({ step, response }) => {
    await step('before')
    await response()
    await step('after')
    done?.()
  }
}
