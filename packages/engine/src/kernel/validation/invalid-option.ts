import { HoldfastError } from '../errors.js'

/**
 * The error for an option that cannot be used, of the call or definition `where`.
 *
 * @example
 * throw invalidOption('run', 'domains', `must be a list of domains, not ${describe(domains)}`)
 */
export function invalidOption(
  where: string,
  option: string,
  problem: string,
  cause?: ErrorOptions,
): HoldfastError<'HF_INVALID_OPTION'> {
  return new HoldfastError('HF_INVALID_OPTION', { where, option, problem }, cause)
}
