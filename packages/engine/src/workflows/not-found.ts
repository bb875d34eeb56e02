import { HoldfastError } from '../kernel/errors.js'

/** The error of every call about an instance that is not there. */
export const instanceNotFound = (id: string, workflow?: string) =>
  new HoldfastError('HF_NOT_FOUND', { model: 'workflows', id, ...(workflow === undefined ? {} : partsOf(workflow)) })

function partsOf(workflow: string) {
  const [domain = '', type = ''] = workflow.split('/')
  return { domain, type }
}
