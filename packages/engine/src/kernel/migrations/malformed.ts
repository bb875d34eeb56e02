import { HoldfastError } from '../errors.js'

/** The error for a SQL file that the runner cannot accept, before anything of it is applied. */
export function malformed(file: string, problem: string): HoldfastError<'HF_MIGRATION_FAILED'> {
  return new HoldfastError('HF_MIGRATION_FAILED', { file: `${file}.sql`, problem })
}
