import { HoldfastError } from '../kernel/errors.js'
import { splitName } from '../kernel/ids/name.js'

/** The error of every call about an instance that is not there. */
export const instanceNotFound = (id: string, workflow?: string) =>
  new HoldfastError('HF_NOT_FOUND', { model: 'workflows', id, ...(workflow === undefined ? {} : splitName(workflow)) })
