import fc from 'fast-check'

/** How a call of a step's code goes: by its attempt, the last one from then on. */
export type Outcome = 'ok' | 'transient' | 'business' | 'permanent'

/** A program as data: what it does is read from the process's own state. */
export type Node =
  | {
      readonly do: 'step'
      readonly id: string
      readonly outcomes: Outcome[]
      readonly undo: boolean
      readonly once: boolean
    }
  /** A step whose failure the program catches. */
  | { readonly do: 'try'; readonly id: string; readonly outcomes: Outcome[] }
  | { readonly do: 'transaction'; readonly id: string; readonly failsFirst: boolean; readonly undo: boolean }
  | { readonly do: 'sideEffect' | 'event' | 'sleep'; readonly id: string }
  /** Until so many responses are in the state. */
  | { readonly do: 'wait'; readonly id: string; readonly need: number }
  | { readonly do: 'all' | 'race' | 'sequence'; readonly nodes: Node[] }
  | { readonly do: 'loop'; readonly times: number; readonly node: Node }

export interface Program {
  readonly body: Node
  /** How `execute` ends: it returns, throws, or its last step fails for good. */
  readonly end: 'returns' | 'throws' | Exclude<Outcome, 'ok'>
  /** How many of the responses are there before it begins. */
  readonly early: number
}

export const MAX_ATTEMPTS = 3

const undo = fc.boolean()
const step = fc
  .record({ retries: fc.integer({ min: 0, max: MAX_ATTEMPTS - 1 }), undo, once: fc.boolean() })
  .map(({ retries, ...rest }): Node => ({ do: 'step', id: '', outcomes: [...transients(retries), 'ok'], ...rest }))
const caught = fc
  .constantFrom<Outcome>('transient', 'business', 'permanent')
  .map((outcome): Node => ({ do: 'try', id: '', outcomes: [outcome] }))
const transaction = fc
  .record({ failsFirst: fc.boolean(), undo })
  .map((options): Node => ({ do: 'transaction', id: '', ...options }))
const wait = fc.integer({ min: 1, max: 4 }).map((need): Node => ({ do: 'wait', id: '', need }))
const event = fc.constant<Node>({ do: 'event', id: '' })
const rest = fc.constantFrom<Node>({ do: 'sideEffect', id: '' }, { do: 'sleep', id: '' })
const leaf = fc.oneof({ weight: 4, arbitrary: step }, caught, transaction, wait, event, rest)

/** What is raced never fails and never rests for a retry: what becomes of the slower one must not depend on time. */
const plain = fc
  .record({ undo, once: fc.boolean() })
  .map((options): Node => ({ do: 'step', id: '', outcomes: ['ok'], ...options }))
const race = fc
  .array(fc.oneof(plain, wait, event), { minLength: 2, maxLength: 3 })
  .map((nodes): Node => ({ do: 'race', nodes }))

const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 3, arbitrary: leaf },
    fc.array(tie('node'), { minLength: 2, maxLength: 3 }).map((nodes): Node => ({ do: 'all', nodes })),
    fc.array(tie('node'), { minLength: 2, maxLength: 3 }).map((nodes): Node => ({ do: 'sequence', nodes })),
    fc
      .record({ times: fc.integer({ min: 2, max: 3 }), node: tie('node') })
      .map((loop): Node => ({ do: 'loop', ...loop })),
    race,
  ),
}))

export const programs: fc.Arbitrary<Program> = fc
  .record({
    nodes: fc.array(node, { minLength: 1, maxLength: 4 }),
    end: fc.constantFrom('returns', 'returns', 'returns', 'throws', 'transient', 'business', 'permanent'),
    early: fc.integer({ min: 0, max: 4 }),
  })
  .map(({ nodes, end, early }) => ({ body: named({ do: 'sequence', nodes }, names()), end, early }))

/** Enough for every event to get one, and for every wait. */
export function responsesFor(node: Node): number {
  return Math.max(events(node), needed(node))
}

const transients = (count: number): Outcome[] => Array.from({ length: count }, () => 'transient')

function events(node: Node): number {
  if ('nodes' in node) return node.nodes.reduce((sum, one) => sum + events(one), 0)
  if (node.do === 'loop') return node.times * events(node.node)
  return node.do === 'event' ? 1 : 0
}

function needed(node: Node): number {
  if ('nodes' in node) return Math.max(...node.nodes.map(needed))
  if (node.do === 'loop') return needed(node.node)
  return node.do === 'wait' ? node.need : 0
}

function names(): (kind: string) => string {
  let count = 0
  return (kind) => `${kind}-${++count}`
}

/** A name for each place in the program; `raced` in what may or may not be on record at the end. */
function named(node: Node, name: (kind: string) => string): Node {
  if (node.do === 'race')
    return { ...node, nodes: node.nodes.map((one) => named(one, (kind) => name(`raced-${kind}`))) }
  if ('nodes' in node) return { ...node, nodes: node.nodes.map((one) => named(one, name)) }
  if (node.do === 'loop') return { ...node, node: named(node.node, name) }
  return { ...node, id: name(node.do) }
}
