import { HoldfastError } from '../kernel/errors.js'
import { notFound, workOf } from '../kernel/model/index.js'

/** The error of every call about an instance that does not exist. */
export const instanceNotFound = (id: string, workflow?: string) => notFound('workflows', workflow, id)

/** The id or key is that of an instance of another workflow. */
export const ofOtherWorkflow = (workflow: string, id: string, actual: string) =>
  new HoldfastError('HF_OTHER_TYPE', { ...workOf('workflows', workflow, id), actual })
