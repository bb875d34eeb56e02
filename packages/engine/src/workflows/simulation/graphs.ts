import fc from 'fast-check'
import type { WorkflowDefinition } from '../definition/definition.js'
import { loadWorkflow } from '../definition/load.js'

/** A generated workflow as a tree, from which the file form is made, and by which a simple model predicts its end. */
type Node =
  | { readonly type: 'task'; readonly undo: boolean; readonly fails: Fails; readonly once: boolean }
  | { readonly type: 'human' }
  | { readonly type: 'condition'; readonly holds: boolean; readonly otherwise: Tree | null }
  | { readonly type: 'fork' | 'parallel'; readonly branches: readonly Tree[]; readonly join: 'all' | 'any' | null }
  | { readonly type: 'save_point' }

export type Tree = readonly Node[]

/** Never; for good at the first call; or that many calls before it succeeds. */
export type Fails = 'never' | 'always' | 1 | 2

export const MAX_ATTEMPTS = 3

export interface GraphOptions {
  readonly humans?: boolean
  readonly once?: boolean
  readonly failures?: boolean
}

export function trees({ humans = true, once = true, failures = true }: GraphOptions = {}): fc.Arbitrary<Tree> {
  const task: fc.Arbitrary<Node> = fc.record({
    type: fc.constant('task' as const),
    undo: fc.boolean(),
    fails: failures
      ? fc.constantFrom<Fails>('never', 'never', 'never', 'never', 'always', 1, 2)
      : fc.constant('never' as const),
    once: once ? fc.constantFrom(false, false, false, true) : fc.constant(false),
  })
  const human = fc.constant<Node>({ type: 'human' })
  const { branch } = fc.letrec<{ node: Node; branch: Tree }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 6, depthSize: 'small', withCrossShrink: true },
      { arbitrary: task, weight: 6 },
      { arbitrary: humans ? human : task, weight: 1 },
      {
        arbitrary: fc.record({
          type: fc.constant('condition' as const),
          holds: fc.boolean(),
          otherwise: fc.option(tie('branch')),
        }),
        weight: 2,
      },
      {
        arbitrary: fc.record({
          type: fc.constantFrom('fork' as const, 'parallel' as const),
          branches: fc.array(tie('branch'), { minLength: 2, maxLength: 3 }),
          join: fc.constantFrom('all' as const, 'any' as const),
        }),
        weight: 3,
      },
    ),
    branch: fc.array(tie('node'), { minLength: 1, maxLength: 3 }),
  }))
  const top = fc.oneof(
    { arbitrary: branch, weight: 4 },
    { arbitrary: fc.constant<Tree>([{ type: 'save_point' }]), weight: 1 },
  )
  return fc.array(top, { minLength: 1, maxLength: 3 }).map((parts) => parts.flat())
}

/** The file of a tree, the names in the order of the tree, and what each task does. */
export function toWorkflow(tree: Tree, dlq = false) {
  const steps: Record<string, unknown>[] = []
  const fails = new Map<string, Fails>()
  let count = 0
  const add = (path: Tree): string | undefined => {
    let before: Record<string, unknown> | undefined
    let first: string | undefined
    for (const node of path) {
      count += 1
      const name = `${node.type}${count}`
      const step: Record<string, unknown> = { name, type: node.type }
      steps.push(step)
      first ??= name
      if (before !== undefined) before.next = name
      before = step
      if (node.type === 'task') {
        fails.set(name, node.fails)
        Object.assign(step, {
          handler: 'H',
          nonIdempotent: node.once,
          ...(node.once ? {} : { retry: { maxAttempts: MAX_ATTEMPTS } }),
        })
        if (node.undo) step.onFailure = { name: `undo ${name}`, handler: 'U' }
      } else if (node.type === 'condition') {
        step.expression = node.holds ? '{{ eq 1 1 }}' : '{{ eq 1 2 }}'
        if (node.otherwise !== null) step.else = add(node.otherwise)
      } else if (node.type === 'fork' || node.type === 'parallel') {
        step.branches = node.branches.map(add)
        if (node.type === 'fork') {
          before = { name: `joined ${name}`, type: 'join', strategy: node.join }
          step.next = before.name
          steps.push(before)
        }
      }
    }
    return first
  }
  add(tree)
  const definition: WorkflowDefinition = loadWorkflow({ domain: 'test', type: 'generated', version: 1, dlq, steps })
  return { definition, fails }
}

type Survives = (node: Extract<Node, { type: 'task' }>) => boolean

/** Whether a path that ends well has called a handler or needed a person on the way. */
function works(tree: Tree, survives: Survives, dlq: boolean): boolean {
  for (const node of tree) {
    if (node.type === 'task' || node.type === 'human') return true
    if (node.type === 'condition' && !node.holds) return node.otherwise !== null && works(node.otherwise, survives, dlq)
    if (node.type === 'fork' || node.type === 'parallel') {
      if (node.branches.some((branch) => succeeds(branch, survives, dlq) && works(branch, survives, dlq))) return true
    }
  }
  return false
}

/**
 * Whether a path ends well if every handler does what it does: what a person would say from looking at the graph. In DLQ mode
 * a branch that did nothing wins an `any` join only if no other branch waits for a person.
 */
export function succeeds(tree: Tree, survives: Survives, dlq = false): boolean {
  for (const node of tree) {
    if (node.type === 'task' && !survives(node)) return false
    if (node.type === 'condition' && !node.holds)
      return node.otherwise === null || succeeds(node.otherwise, survives, dlq)
    if (node.type === 'fork' || node.type === 'parallel') {
      const some = node.type === 'fork' && node.join === 'any'
      const good = (branch: Tree) => succeeds(branch, survives, dlq)
      const wins = (branch: Tree) => good(branch) && (!dlq || works(branch, survives, dlq))
      const ends = some ? node.branches.some(wins) || node.branches.every(good) : node.branches.every(good)
      if (!(ends || (some && !dlq && node.branches.some(good)))) return false
    }
  }
  return true
}
