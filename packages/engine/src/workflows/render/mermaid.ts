// Renders a definition, and how far an instance has come, as a Mermaid diagram. Pure; users and handles call it.

import { type Plan, planOf } from '../decide/plan.js'
import { compensationOf, type StepDefinition, type WorkflowDefinition } from '../definition/definition.js'
import type { StepStatus } from '../states.js'
import { howIs, type ShownInstance, whatIs } from './shown.js'

/** What a status looks like; statuses that mean the same to a reader share a colour. */
const looks = {
  waiting: 'fill:#eef2f7,stroke:#8295ab',
  running: 'fill:#dbeafe,stroke:#2563eb,stroke-width:2px',
  done: 'fill:#dcfce7,stroke:#16a34a',
  failed: 'fill:#fee2e2,stroke:#dc2626',
  paused: 'fill:#fef3c7,stroke:#d97706',
  undone: 'fill:#f3e8ff,stroke:#9333ea',
  skipped: 'fill:#f5f5f5,stroke:#a3a3a3,stroke-dasharray:4',
} as const

const lookOf: Readonly<Record<StepStatus, keyof typeof looks>> = {
  PENDING: 'waiting',
  RUNNING: 'running',
  COMPLETED: 'done',
  FAILED: 'failed',
  PAUSED: 'paused',
  COMPENSATING: 'undone',
  ROLLED_BACK: 'undone',
  SKIPPED: 'skipped',
  WAITING_DECISION: 'paused',
  CONFIRMED: 'done',
  REJECTED: 'failed',
}

/**
 * A workflow as a Mermaid flowchart, and with an instance its progress, by colours and words. Dotted
 * arrows lead to compensations.
 *
 * @example
 * await writeFile('order.mmd', renderMermaid(Order))
 */
export function renderMermaid(definition: WorkflowDefinition, instance?: ShownInstance): string {
  const plan = planOf(definition)
  const ids = new Map(definition.steps.map(({ name }, index) => [name, `s${index}`]))
  const idOf = (name: string | undefined): string => ids.get(name ?? '') ?? 'done'
  const lines = definition.steps.flatMap((step) => [
    nodeOf(idOf(step.name), step, instance),
    ...undoOf(idOf(step.name), step),
    ...arrowsOf(plan, step).map(
      ({ to, label }) => `${idOf(step.name)} -->${label === '' ? '' : `|${label}|`} ${idOf(to)}`,
    ),
  ])
  const end = instance === undefined ? 'end' : escaped(instance.status)
  return [
    'flowchart TD',
    ...[...lines, `done(["${end}"])`, ...classesOf(idOf, instance)].map((line) => `    ${line}`),
  ].join('\n')
}

function nodeOf(id: string, step: StepDefinition, instance: ShownInstance | undefined): string {
  const record = instance?.steps.get(step.name)
  const lines = [step.name, whatIs(step), ...(record === undefined ? [] : [howIs(record)])]
  const [open, close] = shapes[step.type]
  return `${id}${open}"${lines.map(escaped).join('<br/>')}"${close}`
}

const shapes = {
  task: ['[', ']'],
  human: ['[/', '/]'],
  condition: ['{', '}'],
  fork: ['{{', '}}'],
  parallel: ['{{', '}}'],
  join: ['{{', '}}'],
  save_point: ['[[', ']]'],
} as const

function undoOf(id: string, step: StepDefinition): string[] {
  const compensation = compensationOf(step)
  if (compensation === undefined) return []
  return [`${id}u["${escaped(compensation.name)}<br/>${escaped(compensation.handler)}"]`, `${id} -.-> ${id}u`]
}

interface Arrow {
  readonly to: string | undefined
  readonly label: string
}

function arrowsOf(plan: Plan, step: StepDefinition): Arrow[] {
  const after = step.next ?? continuation(plan, step.name)
  switch (step.type) {
    case 'fork':
    case 'parallel':
      return step.branches.map((to) => ({ to, label: '' }))
    case 'condition':
      return [
        { to: after, label: 'yes' },
        { to: step.else ?? continuation(plan, step.name), label: 'no' },
      ]
    default:
      return [{ to: after, label: '' }]
  }
}

/** Where the end of a step's path leads: to the join, or to what follows a fork that is its own. */
function continuation(plan: Plan, name: string): string | undefined {
  for (let place = plan.placeOf(name); place !== undefined; place = plan.placeOf(place.fork)) {
    const next = plan.step(place.fork).next
    if (next !== undefined) return next
  }
  return undefined
}

function classesOf(idOf: (name: string) => string, instance: ShownInstance | undefined): string[] {
  if (instance === undefined) return []
  const members = new Map<keyof typeof looks, string[]>()
  for (const [name, { status }] of instance.steps) {
    const look = lookOf[status]
    members.set(look, [...(members.get(look) ?? []), idOf(name)])
  }
  return [...members].flatMap(([look, ids]) => [`classDef ${look} ${looks[look]}`, `class ${ids.join(',')} ${look}`])
}

/** Names and expressions are the user's: nothing in them may end the label or be taken for markup. */
function escaped(text: string): string {
  return text.replace(/\s+/g, ' ').replace(/["#&<>`\\[\]{}()|]/g, (sign) => `#${sign.codePointAt(0)};`)
}
