import { compensationOf, type StepDefinition, type WorkflowDefinition } from '../definition/definition.js'
import { howIs, type ShownInstance, whatIs } from './shown.js'

/**
 * A workflow as text, and with an instance its progress.
 *
 * ```text
 * order-v1                                          RUNNING
 * charge           ChargeCard ↩ refund: RefundCard  COMPLETED
 * fulfil           fork                             COMPLETED
 * ├─ ship          ShipOrder                        RUNNING, attempt 2
 * └─ digital       {{ eq .kind "digital" }}         COMPLETED, no
 *    ├─ else post  PostOffice                       COMPLETED
 *    mail          Mail
 * fulfilled        join all                         PENDING
 * ```
 *
 * @example
 * console.log(renderText(Order)   // of an instance: await hf.workflow(Order, id).render()
 */
export function renderText(definition: WorkflowDefinition, instance?: ShownInstance): string {
  const steps = new Map(definition.steps.map((step) => [step.name, step]))
  const title = [`${definition.type}-v${definition.version}`, definition.dlq ? 'dlq' : '', instance?.status ?? '']
  const rows = [title, ...pathRows(steps, definition.steps[0]?.name, instance, '', '')]
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

type Row = readonly string[]

/** A path below one another; `lead` stands before its first line, `rest` before the others. */
function pathRows(
  steps: ReadonlyMap<string, StepDefinition>,
  first: string | undefined,
  instance: ShownInstance | undefined,
  lead: string,
  rest: string,
): Row[] {
  const rows: Row[] = []
  let before = lead
  for (let step = steps.get(first ?? ''); step !== undefined; step = steps.get(step.next ?? '')) {
    rows.push(rowOf(step, instance, before))
    const sides = sidesOf(step)
    for (const [index, { name, label }] of sides.entries()) {
      const [branch, below] = index < sides.length - 1 || step.type === 'condition' ? ['├─ ', '│  '] : ['└─ ', '   ']
      rows.push(...pathRows(steps, name, instance, rest + branch + label, rest + below))
    }
    before = rest
  }
  return rows
}

function rowOf(step: StepDefinition, instance: ShownInstance | undefined, before: string): Row {
  const compensation = compensationOf(step)
  const undo = compensation === undefined ? '' : ` ↩ ${compensation.name}: ${compensation.handler}`
  const record = instance?.steps.get(step.name)
  return [before + oneLine(step.name), oneLine(whatIs(step) + undo), record === undefined ? '' : oneLine(howIs(record))]
}

function sidesOf(step: StepDefinition): { readonly name: string; readonly label: string }[] {
  if (step.type === 'fork' || step.type === 'parallel') return step.branches.map((name) => ({ name, label: '' }))
  return step.type === 'condition' && step.else !== undefined ? [{ name: step.else, label: 'else ' }] : []
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ')
