import { problemInName } from '../../kernel/ids/name.js'

const reserved = ['cond#', '_root_']
const versioned = /^(.+)-v([1-9]\d{0,8})$/

/** What is wrong with the name of a step or a compensation, or nothing. Idempotency keys are made of them. */
export function nameProblem(name: unknown): string | undefined {
  if (typeof name === 'string' && name.trim() === '') return 'the name is empty; give it one'
  const prefix = reserved.find((start) => typeof name === 'string' && name.startsWith(start))
  if (prefix !== undefined) return `names that begin with \`${prefix}\` are reserved; choose another`
  const problem = problemInName(name)
  return problem === undefined ? undefined : `the name ${problem}`
}

/** The same for a handler. Nothing is made of its name, so it may have any sign in it: `payments/charge`. */
export function handlerNameProblem(name: unknown): string | undefined {
  return nameProblem(typeof name === 'string' ? name.replaceAll(/[#/]/g, '_') : name)
}

/** The same for the type of a workflow, which is its name within its domain. */
export function workflowTypeProblem(type: unknown): string | undefined {
  // Else `order-v2` could be version 2 of `order` or the newest of `order-v2`.
  if (typeof type === 'string' && versioned.test(type)) return 'the name ends like a version; leave that to `version`'
  return nameProblem(type)
}

/**
 * The definition that a name refers to: `shop/order-v2` is that version, `shop/order` the newest.
 *
 * @example
 * workflowReference('shop/order-v2')   // { name: 'shop/order', version: 2 }
 * workflowReference('shop/order')      // { name: 'shop/order' }
 */
export function workflowReference(reference: string): { readonly name: string; readonly version?: number } {
  const [, name, version] = versioned.exec(reference) ?? []
  return name === undefined ? { name: reference } : { name, version: Number(version) }
}
