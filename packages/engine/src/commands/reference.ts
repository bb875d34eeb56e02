import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'

/**
 * The domain of a command that somebody asks about: ids are unique within a domain only.
 *
 * @example
 * domainOf('get', BookRisk)   // 'payments'
 */
export function domainOf(where: string, command: unknown): string {
  if (typeof command === 'object' && command !== null && 'domain' in command) {
    const { domain } = command
    if (typeof domain === 'string' && domain !== '') return domain
  }
  throw invalidOption(
    where,
    'command',
    `must be a definition made with defineCommand, or { domain }, not ${describe(command)}`,
  )
}
