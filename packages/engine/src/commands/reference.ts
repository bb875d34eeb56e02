import { isId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import { keyedId } from '../kernel/ids/keyed-id.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/** A type of command: its definition, or only its names, `{ domain, type }`, in a program without the definition. */
export interface CommandOf<Input = never, Result = unknown> {
  readonly domain: string
  readonly type: string
  /** Carry the types for the compiler; never set at run time. */
  readonly accepts?: (input: Input) => void
  readonly returns?: Result
}

/** Refuses a value that does not name a type of command. */
export function checkCommandOf(where: string, command: unknown): void {
  if (hasText(command, 'domain') && hasText(command, 'type')) return
  const problem = `must be a definition made with defineCommand, or { domain, type }, not ${describe(command)}`
  throw invalidOption(where, 'command', problem)
}

function hasText(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null) return false
  const text = (value as Partial<Record<string, unknown>>)[name]
  return typeof text === 'string' && text !== ''
}

/**
 * The id of a command that is named by its id or its key. The id of a command with a key is derived from the key, so that no
 * query is needed to find it.
 *
 * @example
 * commandIdOf('command', BookRisk, 'PAY-123')   // '5d1c…'
 */
export function commandIdOf(where: string, { domain, type }: CommandOf<never>, idOrKey: string): string {
  return isId(idOrKey) ? idOrKey.toLowerCase() : keyedId('command', domain, type, checkKey(where, idOrKey))
}
