import { HoldfastError } from '../../kernel/errors.js'

/** The refusal of a definition: whose, at which step, and what to do about it. */
export function invalidWorkflow(
  workflow: string,
  step: string | undefined,
  problem: string,
  options?: ErrorOptions,
): HoldfastError<'HF_INVALID_WORKFLOW'> {
  return new HoldfastError(
    'HF_INVALID_WORKFLOW',
    { workflow, ...(step === undefined ? {} : { step }), problem },
    options,
  )
}
