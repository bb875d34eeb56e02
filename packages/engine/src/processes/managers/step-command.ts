import type { CommandDefinition } from '../../commands/index.js'
import type { Duration } from '../../kernel/duration/duration.js'
import type { RetryCount } from '../../kernel/retry/retry-option.js'
import { describe } from '../../kernel/validation/describe.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { checkOptions } from '../../kernel/validation/options.js'

export interface StepCommandOptions {
  /** The command's calls in all; its definition's unless given. */
  readonly retry?: RetryCount
  readonly delay?: Duration
  readonly startAt?: Date | string
}

/** A command that a step sends; made with `stepCommand`. */
export interface StepCommand {
  readonly command: CommandDefinition
  readonly data: unknown
  readonly options?: StepCommandOptions
}

const KNOWN_OPTIONS = ['retry', 'delay', 'startAt'] as const

/**
 * What a step of a manager sends: its data is checked against the type of the command here, and against its schema when
 * it is sent.
 *
 * @example
 * command: (step, order) => stepCommand(ChargeCard, { card: order.card, cents: order.cents }, { retry: { maxAttempts: 5 } })
 */
export function stepCommand<Input, Data, Result>(
  command: CommandDefinition<Input, Data, Result>,
  data: NoInfer<Input>,
  options: StepCommandOptions = {},
): StepCommand {
  checkOptions('stepCommand', options, KNOWN_OPTIONS)
  if (typeof command?.domain === 'string' && typeof command.type === 'string') {
    // The sender needs only its schema; the types were checked above.
    return { command: command as CommandDefinition, data, options }
  }
  throw invalidOption('stepCommand', 'command', `must be made with defineCommand, not ${describe(command)}`)
}

export function isStepCommand(value: unknown): value is StepCommand {
  return typeof value === 'object' && value !== null && 'command' in value && 'data' in value
}
