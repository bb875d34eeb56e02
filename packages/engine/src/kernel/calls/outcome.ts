import type { Failure } from '../failure/classify.js'

/**
 * How a call of user code to the outside ended, as far as the engine knows. `refused`: the code itself said that it
 * had no effect. `unknown`: the worker died, the lease was lost, the time was up, or any other error was thrown; the effect
 * may have taken place.
 */
export type CallOutcome = 'completed' | 'refused' | 'unknown'

/** Which calls are undone: those that may have had an effect, only those known to have had it, or refused ones too. */
export type CompensateIf = 'possible' | 'completed' | 'attempted'

/** An error says by its class, or by the definition's classifier, that nothing was done; no other error is proof of that. */
export function outcomeOfFailure({ refused }: Failure): 'refused' | 'unknown' {
  return refused ? 'refused' : 'unknown'
}

/** Whether a call that began and ended like this has to be undone. */
export function mustCompensate(outcome: CallOutcome, compensateIf: CompensateIf): boolean {
  if (outcome === 'completed') return true
  if (outcome === 'unknown') return compensateIf !== 'completed'
  return compensateIf === 'attempted'
}
