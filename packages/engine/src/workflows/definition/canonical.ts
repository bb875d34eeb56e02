import { createHash } from 'node:crypto'
import type { WorkflowDefinition } from './definition.js'

/**
 * The definition as one text, the same for the same definition whatever the order of its keys. This is what is stored.
 *
 * @example
 * canonicalWorkflow({ version: 1, domain: 'shop', type: 'order', … })   // '{"dlq":false,"domain":"shop",…}'
 */
export function canonicalWorkflow({ name: _name, ...definition }: WorkflowDefinition): string {
  return canonicalText(definition)
}

const canonicalText = (value: object): string => JSON.stringify(value, (_, part: unknown) => sorted(part))

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/**
 * Identifies a definition: a stored version never changes, so another hash under the same version is refused.
 * It is stored; a change to the form of definitions must keep it for those that exist. Those that were stored before workflows had
 * domains are in the domain `default`, and their hash has no domain in it.
 */
export function workflowHash({ domain, type, name, ...definition }: WorkflowDefinition): string {
  const text = canonicalText({ ...definition, name: domain === 'default' ? type : name })
  return createHash('sha256').update(text).digest('hex')
}
