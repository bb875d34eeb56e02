import type { StepDefinition } from './definition.js'
import { invalidWorkflow } from './invalid.js'

/** A step as the builder notes it: its links follow from its place, and are filled in when everything is known. */
export interface Draft {
  readonly step: StepDefinition
  readonly branches: readonly Path[]
  readonly otherwise?: Path
}

export type Path = readonly Draft[]

/** The nested paths of a builder as the flat list that a definition is. */
export function flatten(workflow: string, path: Path): StepDefinition[] {
  return path.flatMap((draft, index) => {
    const next = path[index + 1]?.step.name
    const inner = [...draft.branches, ...(draft.otherwise === undefined ? [] : [draft.otherwise])]
    return [link(workflow, draft, next), ...inner.flatMap((branch) => flatten(workflow, branch))]
  })
}

function link(workflow: string, { step, branches, otherwise }: Draft, next: string | undefined): StepDefinition {
  const following = next === undefined ? {} : { next }
  const begin = (path: Path, which: string): string => {
    const [first] = path
    if (first === undefined)
      throw invalidWorkflow(workflow, step.name, `${which} is empty; give it a step or leave it out`)
    return first.step.name
  }
  switch (step.type) {
    case 'fork':
    case 'parallel':
      return { ...step, branches: branches.map((path, index) => begin(path, `branch ${index + 1}`)), ...following }
    case 'condition':
      return {
        ...step,
        ...(otherwise === undefined ? {} : { else: begin(otherwise, 'the else branch') }),
        ...following,
      }
    default:
      return { ...step, ...following }
  }
}
