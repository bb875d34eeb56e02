import type { InstanceState, StepState } from '../decide/state.js'
import type { StepDefinition } from '../definition/definition.js'

/** What a picture shows of an instance; an `InstanceState` has all of it. */
export interface ShownInstance extends Pick<InstanceState, 'id' | 'status'> {
  readonly steps: ReadonlyMap<string, ShownStep>
}

type ShownStep = Pick<StepState, 'status' | 'attempts' | 'side' | 'failure' | 'dlq'>

/** What a step is, in a few words. */
export function whatIs(step: StepDefinition): string {
  switch (step.type) {
    case 'task':
      return step.handler
    case 'human':
      return 'a person confirms'
    case 'condition':
      return step.expression
    case 'fork':
      return 'fork'
    case 'parallel':
      return 'parallel'
    case 'join':
      return `join ${step.strategy}`
    case 'save_point':
      return 'save point'
  }
}

/** How a step is doing, in a few words: `RUNNING, attempt 2`, `COMPLETED, no`, `PAUSED in the DLQ: CARD_DECLINED`. */
export function howIs(step: ShownStep): string {
  const parts: string[] = [step.dlq ? `${step.status} in the DLQ` : step.status]
  if (step.side !== null) parts.push(step.side === 'next' ? 'yes' : 'no')
  if (step.attempts > 1) parts.push(`attempt ${step.attempts}`)
  const error = step.failure === null ? '' : `: ${step.failure.code}`
  return parts.join(', ') + error
}
