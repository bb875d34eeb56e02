import { PermanentError } from '../../kernel/failure/failure-errors.js'
import { isName } from '../../kernel/ids/name.js'
import { describe } from '../../kernel/validation/describe.js'
import { durationOption } from '../../kernel/validation/options.js'
import type { DeadlineAction } from '../states.js'
import type { DefinedManager } from './define.js'
import { isStepCommand, type StepCommand } from './step-command.js'
import type { StepReply } from './step-reply.js'

/** The handlers of a definition, with checked return values: an invalid one throws. */
export interface Handlers {
  /** Of the definition: `orders/Order`. */
  readonly name: string
  firstStep(state: unknown): string
  /** The command of a step; undefined for a step that only waits. */
  begin(step: string, state: unknown): StepCommand | undefined
  onReply(state: unknown, step: string, reply: StepReply): unknown
  nextStep(step: string, reply: StepReply, state: unknown): string | undefined
  compensation(step: string, state: unknown): StepCommand | undefined
  /** How long a step that only waits may wait. */
  timeoutMs(step: string, state: unknown): number | undefined
  readonly deadlineAction: DeadlineAction
}

export function handlersOf(definition: DefinedManager): Handlers {
  const { name, steps } = definition

  function checkStep(from: string, step: unknown): string {
    if (steps === undefined && isName(step)) return step
    if (typeof step === 'string' && steps?.has(step)) return step
    throw new PermanentError(`${name}: ${from} returned ${describe(step)}, which is no step`, { code: 'UNKNOWN_STEP' })
  }

  function checkCommand(from: string, step: string, command: unknown): StepCommand {
    if (isStepCommand(command)) return command
    const problem = `returned ${describe(command)} for the step \`${step}\`, not a stepCommand`
    throw new PermanentError(`${name}: ${from} ${problem}`, { code: 'UNKNOWN_STEP' })
  }

  return {
    name,
    firstStep: (state) => checkStep('firstStep', settled(name, 'firstStep', definition.firstStep(state))),
    begin(step, state) {
      if (settled(name, 'waitOnly', definition.waitOnly?.(step, state))) return undefined
      return checkCommand('command', step, settled(name, 'command', definition.command(step, state)))
    },
    onReply(state, step, reply) {
      const next = settled(name, 'onReply', definition.onReply(state, step, reply))
      if (next !== undefined) return next
      throw new PermanentError(`${name}: onReply returned nothing for the step \`${step}\`; it returns the new state`, {
        code: 'NO_STATE',
      })
    },
    nextStep(step, reply, state) {
      const next = settled(name, 'nextStep', definition.nextStep(step, reply, state))
      return next === undefined || next === null ? undefined : checkStep('nextStep', next)
    },
    compensation(step, state) {
      const command = settled(name, 'compensation', definition.compensation?.(step, state))
      return command === undefined || command === null ? undefined : checkCommand('compensation', step, command)
    },
    timeoutMs(step, state) {
      const timeout = settled(name, 'timeout', definition.timeout?.(step, state))
      if (timeout === undefined || timeout === null) return undefined
      return durationOption(`${name}: timeout of \`${step}\``, 'timeout', timeout, { min: '1ms', default: undefined })
    },
    deadlineAction: definition.deadlineAction,
  }
}

/** Handlers decide by what they are given; a promise would decide by something else, and later. */
function settled(definition: string, handler: string, answer: unknown): unknown {
  if (typeof answer !== 'object' || answer === null || !('then' in answer) || typeof answer.then !== 'function') {
    return answer
  }
  Promise.resolve(answer).catch(() => undefined)
  throw new PermanentError(`${definition}: ${handler} must not be async`, { code: 'ASYNC_HANDLER' })
}
