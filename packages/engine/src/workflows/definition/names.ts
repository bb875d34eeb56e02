import { unstorableIn } from '../../kernel/codec/storable-text.js'
import { describe } from '../../kernel/validation/describe.js'

const LONGEST = 200
const reserved = ['cond#', '_root_']
const versioned = /^(.+)-v([1-9]\d{0,8})$/

/** What is wrong with the name of a step, a handler or a compensation, or nothing. */
export function nameProblem(name: unknown): string | undefined {
  if (typeof name !== 'string') return `the name must be a text, not ${describe(name)}`
  if (name.trim() === '') return 'the name is empty; give it one'
  if (name.length > LONGEST) return `the name has ${name.length} characters; ${LONGEST} is the most`
  const unstorable = unstorableIn(name)
  if (unstorable !== undefined) return `the name has ${unstorable} in it, which PostgreSQL cannot hold`
  return undefined
}

export function stepNameProblem(name: unknown): string | undefined {
  const prefix = reserved.find((start) => typeof name === 'string' && name.startsWith(start))
  return prefix === undefined ? nameProblem(name) : `names that begin with \`${prefix}\` are reserved; choose another`
}

export function workflowNameProblem(name: unknown): string | undefined {
  // Else `order-v2` could be version 2 of `order` or the newest of `order-v2`.
  if (typeof name === 'string' && versioned.test(name)) return 'the name ends like a version; leave that to `version`'
  return nameProblem(name)
}

/**
 * Which definition a starter means (W-03): `order-v2` is that version, `order` the newest.
 *
 * @example
 * workflowReference('order-v2')   // { name: 'order', version: 2 }
 * workflowReference('order')      // { name: 'order' }
 */
export function workflowReference(reference: string): { readonly name: string; readonly version?: number } {
  const [, name, version] = versioned.exec(reference) ?? []
  return name === undefined ? { name: reference } : { name, version: Number(version) }
}
