import { HoldfastError } from '../kernel/errors.js'

/** There is no command of this id in the domain. */
export function commandNotFound(domain: string, type: string, id: string): HoldfastError<'HF_NOT_FOUND'> {
  return new HoldfastError('HF_NOT_FOUND', { model: 'commands', domain, type, id })
}
