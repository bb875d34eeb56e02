import type { CommandDefinition, Holdfast, ProcessRecord, WorkflowDefinition } from 'holdfast'
import type { ProcessOf, TimelineEntry } from 'holdfast/types'

/** Whatever has a history: a process, a manager, a command, a workflow. */
export type HasHistory = ProcessOf<never> | CommandDefinition | WorkflowDefinition

/**
 * The history of one piece of work as text: a line per event, and for a process or a workflow a last one with its status.
 * Processes and workflows are named by id or key, commands by id.
 */
export async function historyOf(hf: Holdfast, of: HasHistory, idOrKey: string): Promise<string[]> {
  if (isWorkflow(of)) {
    const events = await hf.workflow(of, idOrKey).history()
    const { status } = await hf.workflow(of, idOrKey).get()
    return [...events.map(({ type, step, error }) => [type, step, error?.code].filter(Boolean).join(' ')), status]
  }
  if (isCommand(of)) {
    const trail = await hf.auditTrail({ id: idOrKey })
    return trail.map(({ event, actor }) => (actor === null ? event : `${event} by ${actor}`))
  }
  const process = hf.process(of, idOrKey)
  return [...(await process.history()).map(lineOf), standingOf(await process.get())]
}

function isWorkflow(of: HasHistory): of is WorkflowDefinition {
  return 'steps' in of && 'dlq' in of
}

function isCommand(of: HasHistory): of is CommandDefinition {
  return 'kind' in of && of.kind === 'command'
}

function lineOf({ type, event, kind, name, status, error, actor }: TimelineEntry): string {
  if (type === 'EVENT') return actor === undefined ? `${event}` : `${event} by ${actor}`
  const aside = event === 'WAIT_TIMEOUT' ? event : error?.code
  return [kind ?? type, name, status, aside].filter(Boolean).join(' ')
}

function standingOf({ status, waitingFor, error }: ProcessRecord): string {
  return [status, waitingFor ?? error?.code].filter(Boolean).join(' ')
}
