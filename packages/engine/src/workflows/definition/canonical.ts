import { createHash } from 'node:crypto'
import type { WorkflowDefinition } from './definition.js'

/**
 * The definition as one text, the same for the same definition whatever the order of its keys.
 *
 * @example
 * canonicalWorkflow({ version: 1, name: 'order', … })   // '{"dlq":false,"name":"order",…}'
 */
export function canonicalWorkflow(definition: WorkflowDefinition): string {
  return JSON.stringify(definition, (_, value: unknown) => sorted(value))
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/**
 * Tells two definitions apart: a stored version never changes (W-03), so another hash under the same version is refused.
 * It is stored; a change to the form of definitions must keep it for those that exist.
 */
export function workflowHash(definition: WorkflowDefinition): string {
  return createHash('sha256').update(canonicalWorkflow(definition)).digest('hex')
}
